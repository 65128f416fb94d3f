//! Sprites: a pack of compressed images, and a cache of the ones in use.
//!
//! The pack is made at start-up, as a build step would make it. The cache is smaller than the pack and
//! drops what was unused for longest. A miss loads the sprite on the spot, in the middle of a frame:
//! unpack, verify, colour, build the smaller sizes. When the camera enters a new region several sprites
//! miss at once, and that frame stalls. That is the fault to find in this game.

use crate::lz;
use crate::rng::Rng;

pub const SPRITE_SIZE: usize = 256;
pub const SPRITE_COUNT: u32 = 40;
const SPRITE_PIXELS: usize = SPRITE_SIZE * SPRITE_SIZE;
const SPRITE_LEVELS: usize = 6;
const CACHE_SLOTS: usize = 24;

pub struct Sprite {
    id: u32,
    last_used: u32,
    pub levels: Vec<Vec<u32>>, // 0xAARRGGBB; each half the size of the one before
}

struct Packed {
    data: Vec<u8>,
    checksum: u32,
}

pub struct Pack {
    entries: Vec<Packed>,
}

fn checksum(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1, 0);
    for &byte in bytes {
        a = (a + u32::from(byte)) % 65521;
        b = (b + a) % 65521;
    }
    b << 16 | a
}

/// A disc with bands and some grain, in palette numbers; 0 is transparent.
fn paint(rng: &mut Rng) -> Vec<u8> {
    let band = 3 + rng.below(12);
    let centre = SPRITE_SIZE as i32 / 2;
    let mut pixels = Vec::with_capacity(SPRITE_PIXELS);
    for y in 0..SPRITE_SIZE as i32 {
        for x in 0..SPRITE_SIZE as i32 {
            let (dx, dy) = (x - centre, y - centre);
            let far = (dx * dx + dy * dy) as u32;
            let grain = u32::from(rng.below(9) == 0);
            let is_outside = far > (centre * centre) as u32;
            pixels.push(if is_outside { 0 } else { (1 + far / 64 / band * 16 + grain) as u8 });
        }
    }
    pixels
}

fn colour(pixels: &[u8], id: u32) -> Vec<u32> {
    let dye = |&pixel: &u8| {
        let (shade, tint) = (u32::from(pixel) * 3 % 256, (u32::from(pixel) + id * 37) % 256);
        if pixel == 0 {
            0
        } else {
            0xff000000 | shade << 16 | tint << 8 | (255 - shade)
        }
    };
    pixels.iter().map(dye).collect()
}

/// Each pixel of the smaller level is the average of four; sums stay within 10 bits a channel.
fn halve(source: &[u32], size: usize) -> Vec<u32> {
    let mut smaller = Vec::with_capacity(source.len() / 4);
    for y in 0..size / 2 {
        for x in 0..size / 2 {
            let at = 2 * y * size + 2 * x;
            let four = [source[at], source[at + 1], source[at + size], source[at + size + 1]];
            let channel = |shift: u32| four.iter().map(|p| p >> shift & 255).sum::<u32>() / 4;
            smaller.push([0, 8, 16, 24].iter().map(|&s| channel(s) << s).sum());
        }
    }
    smaller
}

impl Pack {
    pub fn new(seed: u32) -> Pack {
        let make = |id: u32| {
            let mut rng = Rng::new(seed.wrapping_add(id + 1).wrapping_mul(2246822519));
            let pixels = paint(&mut rng);
            Packed { checksum: checksum(&pixels), data: lz::pack(&pixels) }
        };
        Pack { entries: (0..SPRITE_COUNT).map(make).collect() }
    }

    fn load(&self, id: u32, now: u32) -> Option<Sprite> {
        let packed = &self.entries[id as usize];
        let pixels = lz::unpack(&packed.data, SPRITE_PIXELS)?;
        if checksum(&pixels) != packed.checksum {
            return None;
        }
        let mut levels = vec![colour(&pixels, id)];
        for level in 1..SPRITE_LEVELS {
            levels.push(halve(&levels[level - 1], SPRITE_SIZE >> (level - 1)));
        }
        Some(Sprite { id, last_used: now, levels })
    }
}

pub struct Cache {
    pack: Pack,
    slots: Vec<Option<Sprite>>,
    pub misses: u32,
}

impl Cache {
    pub fn new(pack: Pack) -> Cache {
        Cache { pack, slots: (0..CACHE_SLOTS).map(|_| None).collect(), misses: 0 }
    }

    /// An empty slot, or the one that was unused for longest.
    fn victim(&self) -> usize {
        let age = |slot: &Option<Sprite>| slot.as_ref().map_or(0, |sprite| sprite.last_used + 1);
        (0..CACHE_SLOTS).min_by_key(|&at| age(&self.slots[at])).unwrap_or(0)
    }

    /// The sprite, loaded when it is not there yet; None if its data is damaged.
    pub fn get(&mut self, id: u32, now: u32) -> Option<&Sprite> {
        let is_wanted = |slot: &Option<Sprite>| matches!(slot, Some(sprite) if sprite.id == id);
        let at = match self.slots.iter().position(is_wanted) {
            Some(at) => at,
            None => {
                let at = self.victim();
                self.misses += 1;
                self.slots[at] = self.pack.load(id, now);
                at
            }
        };
        let sprite = self.slots[at].as_mut()?;
        sprite.last_used = now;
        Some(sprite)
    }
}
