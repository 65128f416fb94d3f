//! A load of many short calls in three levels, and of allocations whose number is known: swarm FRAMES.
//!
//! It prints a sum of what it did, and to stderr the CPU time of the frames alone, in ns.
use std::hint::black_box;

const BIRDS: usize = 1000;
const MARKS: usize = 10; // of each frame, 32 bytes each, in a list of 80

struct Bird {
    at: f64,
    speed: f64,
}

fn steer(at: f64, speed: f64) -> f64 {
    (at * 0.7).sin() * 0.1 + speed * 0.99
}

fn advance(bird: &mut Bird) {
    bird.speed = steer(bird.at, bird.speed);
    bird.at += bird.speed;
}

fn physics(birds: &mut [Bird]) {
    for bird in birds {
        advance(bird);
    }
}

fn mark(bird: &Bird) -> Box<[f64; 4]> {
    black_box(Box::new([bird.at, bird.speed, 0.0, 1.0]))
}

fn marks(birds: &[Bird]) -> Vec<Box<[f64; 4]>> {
    let mut found = Vec::with_capacity(MARKS);
    for bird in birds.iter().take(MARKS) {
        found.push(mark(bird));
    }
    black_box(found)
}

fn frame(birds: &mut [Bird]) -> f64 {
    physics(birds);
    marks(birds).iter().map(|mark| mark[0]).sum()
}

#[repr(C)]
struct Time {
    seconds: i64,
    ns: i64,
}
extern "C" {
    fn clock_gettime(clock: i32, time: *mut Time) -> i32;
}

/// CPU time of this thread.
fn cpu_ns() -> i64 {
    let mut time = Time { seconds: 0, ns: 0 };
    unsafe { clock_gettime(3, &mut time) };
    time.seconds * 1_000_000_000 + time.ns
}

fn main() {
    let frames = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let mut birds = Vec::with_capacity(BIRDS);
    for number in 0..BIRDS {
        birds.push(Bird { at: number as f64, speed: 1.0 });
    }
    let begin = cpu_ns();
    let mut sum = 0.0;
    for _ in 0..frames {
        sum += frame(&mut birds);
    }
    eprintln!("{} ns", cpu_ns() - begin);
    println!("{frames} frames, sum {sum}");
}
