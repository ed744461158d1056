//! Random changes of seeds, the same for the same random numbers.

use rand::RngExt;
use rand::rngs::SmallRng;

/// Inputs are not made longer than this.
const LENGTH_MAX: usize = 64 << 10;

/// Lengths, counts and signs that parsers take for others.
const NUMBERS: [i64; 18] = [
    0,
    1,
    -1,
    2,
    -2,
    7,
    16,
    64,
    127,
    128,
    255,
    256,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x1_0000,
    i64::MAX,
    i64::MIN,
];

/// A seed with one to eight changes. `words` are pieces that the target's grammar knows.
pub fn mutate(rng: &mut SmallRng, seeds: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = pick(rng, seeds).cloned().unwrap_or_default();
    for _ in 0..1 << rng.random_range(0..4_u32) {
        change(rng, &mut bytes, seeds, words);
    }
    bytes.truncate(LENGTH_MAX);
    bytes
}

fn pick<'a, T>(rng: &mut SmallRng, from: &'a [T]) -> Option<&'a T> {
    (!from.is_empty()).then(|| &from[rng.random_range(0..from.len())])
}

/// A place in the input; the beginning, where headers and lengths are, more often than others.
fn place(rng: &mut SmallRng, bytes: &[u8]) -> usize {
    let end = if rng.random_ratio(1, 3) { bytes.len().min(32) } else { bytes.len() };
    rng.random_range(0..=end)
}

fn range(rng: &mut SmallRng, bytes: &[u8]) -> std::ops::Range<usize> {
    let start = place(rng, bytes);
    let most = if rng.random_ratio(1, 4) { usize::MAX } else { 16 };
    let end = start + rng.random_range(0..=(bytes.len() - start).min(most));
    start..end
}

fn change(rng: &mut SmallRng, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&[u8]]) {
    match rng.random_range(0..11) {
        0 | 1 if !bytes.is_empty() => {
            let at = place(rng, bytes).min(bytes.len() - 1);
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        2 if !bytes.is_empty() => {
            let at = place(rng, bytes).min(bytes.len() - 1);
            bytes[at] = rng.random();
        }
        3 => {
            let range = range(rng, bytes);
            bytes.drain(range);
        }
        4 => {
            let (range, at) = (range(rng, bytes), place(rng, bytes));
            let copy = bytes[range].to_vec();
            bytes.splice(at..at, copy);
        }
        5 | 6 => write_number(rng, bytes),
        7 => {
            let other = pick(rng, seeds).map_or(&[][..], Vec::as_slice);
            let part = range(rng, other);
            let range = range(rng, bytes);
            bytes.splice(range, other[part].iter().copied());
        }
        8 => {
            let at = place(rng, bytes);
            let random: Vec<u8> = (0..rng.random_range(1..16)).map(|_| rng.random()).collect();
            bytes.splice(at..at, random);
        }
        9 => {
            let range = range(rng, bytes);
            let word = pick(rng, words).copied().unwrap_or(&[]);
            bytes.splice(range, word.iter().copied());
        }
        _ => {
            let at = place(rng, bytes);
            if rng.random_ratio(1, 4) {
                bytes.truncate(at);
            } else {
                // What nests, nests deeply.
                let (range, times) = (range(rng, bytes), rng.random_range(1..64));
                let copy = bytes[range].repeat(times);
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes.truncate(LENGTH_MAX);
}

/// Writes a number over bytes or between them: in binary of one to eight bytes, or in decimal.
fn write_number(rng: &mut SmallRng, bytes: &mut Vec<u8>) {
    let number = pick(rng, &NUMBERS).map_or(0, |n| n.wrapping_add(rng.random_range(-1..=1)));
    let at = place(rng, bytes);
    let content = match rng.random_range(0..6) {
        0 => number.to_be_bytes()[7..].to_vec(),
        1 => number.to_be_bytes()[6..].to_vec(),
        2 => number.to_be_bytes()[4..].to_vec(),
        3 => number.to_le_bytes()[..4].to_vec(),
        4 => number.to_be_bytes().to_vec(),
        _ => number.to_string().into_bytes(),
    };
    let over = if rng.random_ratio(3, 4) { content.len() } else { 0 };
    let end = (at + over).min(bytes.len());
    bytes.splice(at..end, content);
}
