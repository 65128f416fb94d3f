//! A small random generator (xorshift), so that a seed gives the same game everywhere.

pub struct Rng {
    state: u32, // never 0
}

impl Rng {
    pub fn new(seed: u32) -> Rng {
        Rng { state: seed | 1 }
    }

    pub fn next(&mut self) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        self.state
    }

    /// In [0, bound).
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(bound)) >> 32) as u32
    }

    /// In [low, high).
    pub fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * (self.next() >> 8) as f32 / 16777216.0
    }
}
