//! Sparks. Each is its own block on a list: simple, and the profile shows what that costs. They are
//! born in bursts, slow down, and are freed one by one as they burn out.

use crate::rng::Rng;
use crate::vec2::Vec2;

pub struct Particle {
    pub next: Option<Box<Particle>>,
    pub pos: Vec2,
    vel: Vec2,
    frames_left: u32,
}

#[derive(Default)]
pub struct Particles {
    pub first: Option<Box<Particle>>,
    pub count: u32,
}

impl Particles {
    pub fn burst(&mut self, rng: &mut Rng, at: Vec2, count: u32) {
        for _ in 0..count {
            let vel = Vec2 { x: rng.range(-2.0, 2.0), y: rng.range(-2.0, 2.0) };
            let frames_left = 10 + rng.below(20);
            let next = self.first.take();
            self.first = Some(Box::new(Particle { next, pos: at, vel, frames_left }));
            self.count += 1;
        }
    }

    pub fn update(&mut self) {
        let mut link = &mut self.first;
        loop {
            match link {
                None => break,
                Some(spark) if spark.frames_left <= 1 => {
                    *link = spark.next.take();
                    self.count -= 1;
                }
                Some(spark) => {
                    spark.frames_left -= 1;
                    spark.pos.x += spark.vel.x;
                    spark.pos.y += spark.vel.y;
                    spark.vel.x *= 0.95;
                    spark.vel.y *= 0.95;
                    link = &mut spark.next;
                }
            }
        }
    }
}
