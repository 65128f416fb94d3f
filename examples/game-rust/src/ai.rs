//! Hunters chase the nearest critter they can smell, or roam; each makes a new plan every 24 ticks, in
//! turn, so that the planning is spread over the frames.

use crate::path::{self, TILE_SIZE};
use crate::rng::Rng;
use crate::vec2::Vec2;
use crate::world::{Entity, Kind, World, WORLD_SIZE};

const PLAN_EVERY: usize = 24;
const SMELL: f32 = 96.0;
const SPEED: f32 = 2.0;

fn choose_prey(world: &World, rng: &mut Rng, hunter: Vec2) -> Vec2 {
    let mut near = [0; 256];
    let count = world.grid.query(hunter, SMELL, &mut near);
    let size = WORLD_SIZE as f32;
    let roam = Vec2 { x: rng.range(0.0, size), y: rng.range(0.0, size) };
    let mut prey = None;
    let mut nearest = SMELL;
    for &number in &near[..count] {
        let other = &world.entities[number as usize];
        let distance = other.pos.minus(hunter).length();
        // Not the one underfoot: a chase of no steps is no chase.
        let is_far = distance > (2 * TILE_SIZE) as f32;
        if other.kind == Kind::Critter && is_far && distance < nearest {
            prey = Some(other.pos);
            nearest = distance;
        }
    }
    match prey {
        Some(pos) if rng.below(3) > 0 => pos,
        _ => roam,
    }
}

fn make_plan(world: &mut World, rng: &mut Rng, number: usize) {
    let from = world.entities[number].pos;
    let to = choose_prey(world, rng, from);
    let hunter = &mut world.entities[number];
    hunter.path = path::find(&world.map, from, to);
    hunter.path_at = 0;
}

fn follow_path(hunter: &mut Entity) {
    let Some(&step) = hunter.path.as_ref().and_then(|path| path.get(hunter.path_at)) else {
        return;
    };
    let way = step.minus(hunter.pos);
    let distance = way.length();
    if distance < SPEED {
        hunter.path_at += 1;
        return;
    }
    hunter.vel = Vec2 { x: way.x / distance * SPEED, y: way.y / distance * SPEED };
}

pub fn think(world: &mut World, rng: &mut Rng) {
    for i in 0..world.entities.len() {
        if world.entities[i].kind != Kind::Hunter {
            continue;
        }
        if (world.frame as usize + i) % PLAN_EVERY == 0 {
            make_plan(world, rng, i);
        }
        follow_path(&mut world.entities[i]);
    }
}
