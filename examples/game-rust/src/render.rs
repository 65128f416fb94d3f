//! Drawing, without a screen. Two steps, as in a real renderer: collect what is in view and sort it
//! back to front, then put it into a small picture in memory.

use crate::assets::{Cache, Sprite, SPRITE_COUNT, SPRITE_SIZE};
use crate::path::TILE_SIZE;
use crate::vec2::Vec2;
use crate::world::{Entity, Kind, World};

const WIDTH: usize = 480;
const HEIGHT: usize = 320;

pub struct Screen {
    pixels: Vec<u32>,
}

struct Draw {
    depth: f32,
    order: usize, // settles equal depths, so that the picture is the same everywhere
    sprite: u32,
    x: i32,
    y: i32,
    level: usize,
}

/// What things look like depends on where the camera is: the way across the world is cut into regions
/// with ten sprites each. Hence the misses, all at once, when the camera enters one.
fn sprite_of(entity: &Entity, world: &World) -> u32 {
    let region = world.camera.x as u32 / 176;
    (region * 10 + entity.look % 10) % SPRITE_COUNT
}

fn display_list(world: &World) -> Vec<Draw> {
    let left = world.camera.x - WIDTH as f32 / 2.0;
    let top = world.camera.y - HEIGHT as f32 / 2.0;
    let mut draws = Vec::new();
    for (order, entity) in world.entities.iter().enumerate() {
        let (x, y) = (entity.pos.x - left, entity.pos.y - top);
        if x < -8.0 || y < -8.0 || x > (WIDTH + 8) as f32 || y > (HEIGHT + 8) as f32 {
            continue;
        }
        draws.push(Draw {
            depth: entity.pos.y,
            order,
            sprite: sprite_of(entity, world),
            x: x as i32,
            y: y as i32,
            level: if entity.kind == Kind::Critter { 5 } else { 4 },
        });
    }
    draws.sort_unstable_by(|a, b| a.depth.total_cmp(&b.depth).then(a.order.cmp(&b.order)));
    draws
}

fn blend(under: u32, over: u32) -> u32 {
    let (alpha, rest) = (over >> 24, 255 - (over >> 24));
    let red_blue = (over & 0xff00ff).wrapping_mul(alpha);
    let red_blue = red_blue.wrapping_add((under & 0xff00ff).wrapping_mul(rest)) >> 8 & 0xff00ff;
    let green = ((over & 0xff00) * alpha + (under & 0xff00) * rest) >> 8 & 0xff00;
    0xff000000 | red_blue | green
}

impl Screen {
    pub fn new() -> Screen {
        Screen { pixels: vec![0; WIDTH * HEIGHT] }
    }

    fn draw_sprite(&mut self, sprite: &Sprite, draw: &Draw) {
        let size = SPRITE_SIZE >> draw.level;
        let half = size as i32 / 2;
        for row in 0..size {
            let y = draw.y - half + row as i32;
            if y < 0 || y >= HEIGHT as i32 {
                continue;
            }
            for column in 0..size {
                let x = draw.x - half + column as i32;
                if x >= 0 && x < WIDTH as i32 {
                    let pixel = &mut self.pixels[y as usize * WIDTH + x as usize];
                    *pixel = blend(*pixel, sprite.levels[draw.level][row * size + column]);
                }
            }
        }
    }

    fn draw_particles(&mut self, world: &World) {
        let mut next = &world.particles.first;
        while let Some(spark) = next {
            let x = (spark.pos.x - world.camera.x) as i32 + WIDTH as i32 / 2;
            let y = (spark.pos.y - world.camera.y) as i32 + HEIGHT as i32 / 2;
            if x >= 0 && y >= 0 && x < WIDTH as i32 && y < HEIGHT as i32 {
                self.pixels[y as usize * WIDTH + x as usize] = 0xffffe080;
            }
            next = &spark.next;
        }
    }

    /// Row by row, in pieces of one tile.
    fn draw_ground(&mut self, world: &World) {
        let left = world.camera.x as usize - WIDTH / 2;
        let top = world.camera.y as usize - HEIGHT / 2;
        for (y, row) in self.pixels.chunks_mut(WIDTH).enumerate() {
            let mut x = 0;
            while x < WIDTH {
                let at = Vec2 { x: (left + x) as f32, y: (top + y) as f32 };
                let end = WIDTH.min(x + TILE_SIZE - (left + x) % TILE_SIZE);
                row[x..end].fill(if world.map.blocked(at) { 0xff606870 } else { 0xff203020 });
                x = end;
            }
        }
    }

    pub fn render(&mut self, world: &World, cache: &mut Cache) {
        let draws = display_list(world);
        self.draw_ground(world);
        for draw in &draws {
            if let Some(sprite) = cache.get(draw.sprite, world.frame) {
                self.draw_sprite(sprite, draw);
            }
        }
        self.draw_particles(world);
    }

    pub fn checksum(&self) -> u32 {
        self.pixels.iter().fold(0, |sum: u32, &pixel| sum.wrapping_mul(31).wrapping_add(pixel))
    }
}
