//! A spatial grid: which entities are near a point, without looking at all of them.
//!
//! It is rebuilt every tick by a counting sort: count the entities of each cell, turn the counts into
//! offsets, put every entity in its place. No lists, and nothing is allocated.

use crate::vec2::Vec2;

const CELL: u32 = 16;

pub struct Grid {
    width: usize,      // cells a side
    starts: Vec<u32>,  // width * width + 1 offsets into `members`
    members: Vec<u32>, // entity numbers, cell after cell
    cell_of: Vec<u32>, // for each entity
}

impl Grid {
    pub fn new(world_size: u32, capacity: usize) -> Grid {
        let width = ((world_size + CELL - 1) / CELL) as usize;
        Grid {
            width,
            starts: vec![0; width * width + 1],
            members: vec![0; capacity],
            cell_of: vec![0; capacity],
        }
    }

    fn cell(&self, coordinate: f32) -> usize {
        ((coordinate / CELL as f32) as i32).clamp(0, self.width as i32 - 1) as usize
    }

    pub fn rebuild(&mut self, positions: impl ExactSizeIterator<Item = Vec2>) {
        let cells = self.width * self.width;
        let count = positions.len();
        self.starts.fill(0);
        for (i, at) in positions.enumerate() {
            let cell = self.cell(at.y) * self.width + self.cell(at.x);
            self.cell_of[i] = cell as u32;
            self.starts[cell + 1] += 1;
        }
        for cell in 0..cells {
            self.starts[cell + 1] += self.starts[cell];
        }
        // Backwards, so that each start ends up where its cell begins, and members stay in order.
        for i in (0..count).rev() {
            let end = &mut self.starts[self.cell_of[i] as usize + 1];
            *end -= 1;
            self.members[*end as usize] = i as u32;
        }
        self.starts.copy_within(1..cells + 1, 0);
        self.starts[cells] = count as u32;
    }

    /// Writes the numbers of entities whose cells touch the square around CENTRE, as many as there
    /// is room for; how many.
    pub fn query(&self, centre: Vec2, reach: f32, out: &mut [u32]) -> usize {
        let mut found = 0;
        let (left, right) = (self.cell(centre.x - reach), self.cell(centre.x + reach));
        for y in self.cell(centre.y - reach)..=self.cell(centre.y + reach) {
            let begin = self.starts[y * self.width + left] as usize;
            let end = self.starts[y * self.width + right + 1] as usize;
            for &member in &self.members[begin..end] {
                if found == out.len() {
                    return found;
                }
                out[found] = member;
                found += 1;
            }
        }
        found
    }
}
