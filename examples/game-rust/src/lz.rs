//! A small byte compressor of the LZ family, for the asset pack.
//!
//! Packed data is a row of tokens. A token byte t below 128 is followed by t + 1 bytes to copy; from 128
//! on it is followed by a distance in two bytes, low first, and means: repeat t - 125 bytes from that
//! far back. Repeats may overlap themselves, which makes runs cheap.

const MIN_MATCH: usize = 3;
const MAX_MATCH: usize = 130;
const MAX_LITERALS: usize = 128;
const MAX_DISTANCE: usize = 65535;

fn hash3(at: &[u8]) -> usize {
    let word = u32::from(at[0]) << 8 ^ u32::from(at[1]) << 4 ^ u32::from(at[2]);
    (word.wrapping_mul(2654435761) >> 20) as usize
}

fn put_literals(out: &mut Vec<u8>, bytes: &[u8]) {
    for run in bytes.chunks(MAX_LITERALS) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

pub fn pack(source: &[u8]) -> Vec<u8> {
    let mut last_seen = [0; 4096]; // position + 1 by hash
    let mut out = Vec::new();
    let (mut literals, mut at) = (0, 0);
    while at + MIN_MATCH <= source.len() {
        let hash = hash3(&source[at..]);
        let seen = last_seen[hash];
        last_seen[hash] = at + 1;
        let mut length = 0;
        if seen > 0 && at + 1 - seen <= MAX_DISTANCE {
            let pairs = source[seen - 1..].iter().zip(&source[at..]);
            length = pairs.take(MAX_MATCH).take_while(|(a, b)| a == b).count();
        }
        if length < MIN_MATCH {
            at += 1;
            continue;
        }
        put_literals(&mut out, &source[literals..at]);
        out.push((length - MIN_MATCH + 128) as u8);
        out.extend_from_slice(&((at + 1 - seen) as u16).to_le_bytes());
        at += length;
        literals = at;
    }
    put_literals(&mut out, &source[literals..]);
    out
}

/// None if SOURCE is not LENGTH bytes packed.
pub fn unpack(source: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(length);
    let mut at = 0;
    while at < source.len() {
        let token = source[at] as usize;
        at += 1;
        if token < 128 {
            out.extend_from_slice(source.get(at..at + token + 1)?);
            at += token + 1;
        } else {
            let distance = u16::from_le_bytes([*source.get(at)?, *source.get(at + 1)?]) as usize;
            at += 2;
            if distance == 0 {
                return None;
            }
            // Byte by byte: the two may overlap.
            let mut from = out.len().checked_sub(distance)?;
            for _ in 0..token - 128 + MIN_MATCH {
                out.push(out[from]);
                from += 1;
            }
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}
