//! The world: a walled square full of rocks, critters that drift about, and hunters after them.
//! A tick: think, move, age the particles, move the camera.

use crate::ai;
use crate::grid::Grid;
use crate::particles::Particles;
use crate::path::{Map, MAP_TILES, TILE_SIZE};
use crate::physics;
use crate::rng::Rng;
use crate::vec2::Vec2;

pub const WORLD_SIZE: usize = MAP_TILES * TILE_SIZE;
const ENTITY_COUNT: usize = 8000;
const HUNTER_COUNT: usize = 120;
const ROCK_COUNT: usize = 300;

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Rock,
    Critter,
    Hunter,
}

pub struct Entity {
    pub pos: Vec2,
    pub vel: Vec2,
    pub radius: f32,
    pub kind: Kind,
    pub look: u32,               // which of the sprites of its region it wears
    pub path: Option<Vec<Vec2>>, // of hunters; None when it has nowhere to go
    pub path_at: usize,
}

pub struct World {
    pub frame: u32,
    pub camera: Vec2, // centre of the picture
    pub entities: Vec<Entity>,
    pub map: Map,
    pub grid: Grid,
    pub particles: Particles,
}

/// Walls: straight pieces strewn about, with the border closed.
fn build_walls(rng: &mut Rng) -> Map {
    let mut map = Map { wall: [[false; MAP_TILES]; MAP_TILES] };
    for i in 0..MAP_TILES {
        for (x, y) in [(i, 0), (i, MAP_TILES - 1), (0, i), (MAP_TILES - 1, i)] {
            map.wall[y][x] = true;
        }
    }
    for _ in 0..90 {
        let x = rng.below(MAP_TILES as u32 - 12) as usize;
        let y = rng.below(MAP_TILES as u32 - 12) as usize;
        let is_across = rng.below(2) > 0;
        let mut i = 0;
        while i < 4 + rng.below(8) as usize {
            let (dx, dy) = if is_across { (i, 0) } else { (0, i) };
            map.wall[y + dy][x + dx] = true;
            i += 1;
        }
    }
    map
}

fn free_spot(map: &Map, rng: &mut Rng) -> Vec2 {
    let (low, high) = (TILE_SIZE as f32, (WORLD_SIZE - TILE_SIZE) as f32);
    loop {
        let spot = Vec2 { x: rng.range(low, high), y: rng.range(low, high) };
        if !map.blocked(spot) {
            return spot;
        }
    }
}

fn spawn(map: &Map, rng: &mut Rng, kind: Kind) -> Entity {
    let speed = match kind {
        Kind::Rock => 0.0,
        Kind::Critter => 1.2,
        Kind::Hunter => 0.5,
    };
    let pos = free_spot(map, rng);
    let radius = if kind == Kind::Rock { 6.0 } else { rng.range(2.0, 4.0) };
    let look = rng.next();
    let vel = Vec2 { x: rng.range(-speed, speed), y: rng.range(-speed, speed) };
    Entity { pos, vel, radius, kind, look, path: None, path_at: 0 }
}

impl World {
    pub fn new(rng: &mut Rng) -> World {
        let map = build_walls(rng);
        let entities = (0..ENTITY_COUNT)
            .map(|i| {
                let kind = match i {
                    _ if i < HUNTER_COUNT => Kind::Hunter,
                    _ if i < HUNTER_COUNT + ROCK_COUNT => Kind::Rock,
                    _ => Kind::Critter,
                };
                spawn(&map, rng, kind)
            })
            .collect();
        World {
            frame: 0,
            camera: Vec2::default(),
            entities,
            map,
            grid: Grid::new(WORLD_SIZE as u32, ENTITY_COUNT),
            particles: Particles::default(),
        }
    }

    /// The camera travels a triangle wave along the diagonal, through one region after the other.
    fn move_camera(&mut self) {
        let span = WORLD_SIZE as u32 - 480;
        let at = self.frame * 5 % (2 * span);
        let along = at.min(2 * span - at) as f32;
        self.camera = Vec2 { x: 240.0 + along, y: 240.0 + along };
    }

    /// One tick of everything that is not drawing.
    pub fn update(&mut self, rng: &mut Rng) {
        ai::think(self, rng);
        physics::step(self, rng);
        self.particles.update();
        self.move_camera();
        self.frame += 1;
    }

    /// A number that depends on the whole state, for comparing runs.
    pub fn checksum(&self) -> u32 {
        let add = |sum: u32, number: u32| sum.wrapping_mul(31).wrapping_add(number);
        let sum = self.entities.iter().fold(self.frame, |sum, entity| {
            let sum = add(sum, (entity.pos.x * 64.0) as i32 as u32);
            add(sum, (entity.pos.y * 64.0) as i32 as u32)
        });
        add(sum, self.particles.count)
    }
}
