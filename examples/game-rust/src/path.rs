//! The tile map, and the shortest way across it.
//!
//! A* over the tiles, four ways from each, with a binary heap of open tiles. A tile may be in the heap
//! more than once; the stale entries are skipped when they come up.

use crate::vec2::Vec2;

pub const MAP_TILES: usize = 64;
pub const TILE_SIZE: usize = 16;
const TILES: usize = MAP_TILES * MAP_TILES;
const UNREACHED: u16 = u16::MAX;

pub struct Map {
    pub wall: [[bool; MAP_TILES]; MAP_TILES], // [y][x]
}

impl Map {
    pub fn blocked(&self, at: Vec2) -> bool {
        let size = (MAP_TILES * TILE_SIZE) as f32;
        if at.x < 0.0 || at.y < 0.0 || at.x >= size || at.y >= size {
            return true;
        }
        self.wall[at.y as usize / TILE_SIZE][at.x as usize / TILE_SIZE]
    }
}

#[derive(Clone, Copy)]
struct OpenTile {
    rank: u16, // steps so far + at least as many still to go
    tile: u16,
}

struct Search<'a> {
    map: &'a Map,
    goal: u16,
    steps: Vec<u16>, // from the start
    came_from: Vec<u16>,
    heap: Vec<OpenTile>,
}

fn estimate(a: u16, b: u16) -> u16 {
    let tiles = MAP_TILES as u16;
    (a % tiles).abs_diff(b % tiles) + (a / tiles).abs_diff(b / tiles)
}

impl Search<'_> {
    fn push(&mut self, item: OpenTile) {
        let mut at = self.heap.len();
        self.heap.push(item);
        while at > 0 && self.heap[(at - 1) / 2].rank > item.rank {
            self.heap[at] = self.heap[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        self.heap[at] = item;
    }

    fn pop(&mut self) -> Option<OpenTile> {
        let last = self.heap.pop()?;
        let heap = &mut self.heap;
        let Some(&top) = heap.first() else { return Some(last) };
        let mut at = 0;
        loop {
            let mut child = 2 * at + 1;
            if child >= heap.len() {
                break;
            }
            if child + 1 < heap.len() && heap[child + 1].rank < heap[child].rank {
                child += 1;
            }
            if heap[child].rank >= last.rank {
                break;
            }
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = last;
        Some(top)
    }

    fn reach(&mut self, tile: u16, from: u16, steps: u16) {
        let place = tile as usize;
        if self.map.wall[place / MAP_TILES][place % MAP_TILES] || steps >= self.steps[place] {
            return;
        }
        self.steps[place] = steps;
        self.came_from[place] = from;
        self.push(OpenTile { rank: steps + estimate(tile, self.goal), tile });
    }

    fn explore(&mut self) -> bool {
        while let Some(OpenTile { rank, tile }) = self.pop() {
            let steps = self.steps[tile as usize];
            if tile == self.goal {
                return true;
            }
            if rank > steps + estimate(tile, self.goal) {
                continue; // a shorter way here was found since
            }
            // The border is all wall, so no neighbour falls off the map.
            for next in [tile - 1, tile + 1, tile - MAP_TILES as u16, tile + MAP_TILES as u16] {
                self.reach(next, tile, steps + 1);
            }
        }
        false
    }

    /// Tile centres, the goal last.
    fn walk_back(&self) -> Vec<Vec2> {
        let centre = |number: usize| (number as f32 + 0.5) * TILE_SIZE as f32;
        let mut steps = vec![Vec2::default(); self.steps[self.goal as usize] as usize];
        let mut tile = self.goal as usize;
        for step in steps.iter_mut().rev() {
            *step = Vec2 { x: centre(tile % MAP_TILES), y: centre(tile / MAP_TILES) };
            tile = self.came_from[tile] as usize;
        }
        steps
    }
}

fn tile_at(at: Vec2) -> u16 {
    (at.y as usize / TILE_SIZE * MAP_TILES + at.x as usize / TILE_SIZE) as u16
}

/// None if there is no way.
pub fn find(map: &Map, from: Vec2, to: Vec2) -> Option<Vec<Vec2>> {
    if map.blocked(from) || map.blocked(to) {
        return None;
    }
    let mut search = Search {
        map,
        goal: tile_at(to),
        steps: vec![UNREACHED; TILES],
        came_from: vec![0; TILES],
        heap: Vec::new(),
    };
    search.reach(tile_at(from), tile_at(from), 0);
    search.explore().then(|| search.walk_back())
}
