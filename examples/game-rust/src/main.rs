//! A small game without a screen, made to be profiled: the game of ../game, in Rust. It simulates, draws
//! into memory, and prints a checksum of what it did, so that two builds of it can be compared.
//!
//!     game [--frames N] [--seed S] [--fps N]
//!
//! --fps 0, the default, runs as fast as it can.

mod ai;
mod assets;
mod grid;
mod lz;
mod particles;
mod path;
mod physics;
mod render;
mod rng;
mod vec2;
mod world;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use assets::{Cache, Pack};
use render::Screen;
use rng::Rng;
use world::World;

struct Options {
    frames: u32,
    seed: u32,
    fps: u32,
}

struct Game {
    rng: Rng,
    world: World,
    cache: Cache,
    screen: Screen,
    checksum: u32,
}

fn parse_options(mut words: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options { frames: 300, seed: 1, fps: 0 };
    while let Some(word) = words.next() {
        let number = words.next()?.parse().ok()?;
        match word.as_str() {
            "--frames" => options.frames = number,
            "--seed" => options.seed = number,
            "--fps" => options.fps = number,
            _ => return None,
        }
    }
    Some(options)
}

impl Game {
    fn new(seed: u32) -> Game {
        let mut rng = Rng::new(seed.wrapping_mul(2654435761));
        let world = World::new(&mut rng);
        let cache = Cache::new(Pack::new(seed));
        Game { rng, world, cache, screen: Screen::new(), checksum: 0 }
    }

    fn run_frame(&mut self) {
        self.world.update(&mut self.rng);
        self.screen.render(&self.world, &mut self.cache);
        self.checksum = self.checksum.wrapping_mul(31).wrapping_add(self.screen.checksum());
    }
}

/// Sleeps until the next frame is due; DUE moves on by one frame.
fn wait_for(due: &mut Instant, fps: u32) {
    *due += Duration::from_secs(1) / fps;
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
}

fn main() -> ExitCode {
    let Some(options) = parse_options(std::env::args().skip(1)) else {
        eprintln!("usage: game [--frames N] [--seed S] [--fps N]");
        return ExitCode::from(2);
    };
    let mut game = Game::new(options.seed);
    let mut due = Instant::now();
    for _ in 0..options.frames {
        game.run_frame();
        if options.fps > 0 {
            wait_for(&mut due, options.fps);
        }
    }
    let checksum = game.checksum ^ game.world.checksum();
    println!(
        "{} frames, {} sprites loaded, checksum {checksum:08x}",
        options.frames, game.cache.misses
    );
    ExitCode::SUCCESS
}
