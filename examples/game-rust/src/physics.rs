//! Movement and collisions: integrate, bounce off walls, sort into the grid, push apart whatever
//! overlaps. Hard knocks throw sparks.

use crate::particles::Particles;
use crate::path::Map;
use crate::rng::Rng;
use crate::vec2::Vec2;
use crate::world::{Entity, Kind, World};

fn integrate(map: &Map, entity: &mut Entity) {
    let mut next = Vec2 { x: entity.pos.x + entity.vel.x, y: entity.pos.y + entity.vel.y };
    if map.blocked(Vec2 { x: next.x, y: entity.pos.y }) {
        entity.vel.x = -entity.vel.x;
        next.x = entity.pos.x;
    }
    if map.blocked(next) {
        entity.vel.y = -entity.vel.y;
        next.y = entity.pos.y;
    }
    entity.pos = next;
}

/// Rocks do not give way; everything else shares the push and trades speed along the normal.
fn collide(particles: &mut Particles, rng: &mut Rng, a: &mut Entity, b: &mut Entity) {
    let apart = b.pos.minus(a.pos);
    let distance = apart.length();
    let overlap = a.radius + b.radius - distance;
    if overlap <= 0.0 || distance < 0.001 {
        return;
    }
    let normal = Vec2 { x: apart.x / distance, y: apart.y / distance };
    let speed = b.vel.minus(a.vel);
    let closing = -(speed.x * normal.x + speed.y * normal.y);
    let share_a = match (a.kind, b.kind) {
        (Kind::Rock, _) => 0.0,
        (_, Kind::Rock) => 1.0,
        _ => 0.5,
    };
    let share_b = if b.kind == Kind::Rock { 0.0 } else { 1.0 - share_a };
    let shift = overlap * 0.5;
    let kick = closing.max(0.0);

    a.pos.x -= normal.x * shift * share_a;
    a.pos.y -= normal.y * shift * share_a;
    b.pos.x += normal.x * shift * share_b;
    b.pos.y += normal.y * shift * share_b;
    a.vel.x -= normal.x * kick * 2.0 * share_a;
    a.vel.y -= normal.y * kick * 2.0 * share_a;
    b.vel.x += normal.x * kick * 2.0 * share_b;
    b.vel.y += normal.y * kick * 2.0 * share_b;
    if closing > 2.6 {
        particles.burst(rng, a.pos, 4);
    }
}

fn resolve_collisions(world: &mut World, rng: &mut Rng) {
    let mut near = [0; 128];
    for i in 0..world.entities.len() {
        let entity = &world.entities[i];
        let count = world.grid.query(entity.pos, entity.radius + 6.0, &mut near);
        for &other in &near[..count] {
            let other = other as usize;
            if other > i {
                // Each pair once.
                let (before, after) = world.entities.split_at_mut(other);
                collide(&mut world.particles, rng, &mut before[i], &mut after[0]);
            }
        }
    }
}

pub fn step(world: &mut World, rng: &mut Rng) {
    for entity in &mut world.entities {
        if entity.kind != Kind::Rock {
            integrate(&world.map, entity);
        }
    }
    world.grid.rebuild(world.entities.iter().map(|entity| entity.pos));
    resolve_collisions(world, rng);
}
