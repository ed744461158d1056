//! The effect of a machine crash on a fake file system.

use std::ops::Range;
use std::path::PathBuf;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::file::{self, Change, Content, FileBytes};
use super::tree::{self, Copies, Names, Tree};

/// The unit in which disks lose or keep bytes.
const SECTOR: usize = 512;

/// The tree that survives, decided by the seed alone.
pub(super) fn survivor(tree: &Tree, seed: u64) -> Tree {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut names = tree.durable().clone();
    // A journalling file system commits directory changes in order. All or none are the common
    // cases, so they are drawn more often.
    let pending = tree.pending();
    let kept = match random.random_range(0..4) {
        0 => 0,
        1 => pending.len(),
        _ => random.random_range(0..=pending.len()),
    };
    for change in &pending[..kept] {
        tree::apply(&mut names, change);
    }
    drop_unreachable(&mut names);
    let mut copies = Copies::new(|content: &Content| Content::settled(surviving_bytes(content, &mut random)));
    Tree::settled(copies.names(&names))
}

/// Removes names whose directory did not survive.
fn drop_unreachable(names: &mut Names) {
    let unreachable = |names: &Names, path: &PathBuf| {
        path.ancestors().skip(1).any(|above| !above.as_os_str().is_empty() && !names.contains_key(above))
    };
    let lost: Vec<PathBuf> = names.keys().filter(|path| unreachable(names, path)).cloned().collect();
    for path in lost {
        names.remove(&path);
    }
}

fn surviving_bytes(content: &Content, random: &mut SmallRng) -> FileBytes {
    let mut bytes = content.durable().clone();
    let pending = content.pending();
    if pending.is_empty() {
        return bytes;
    }
    match random.random_range(0..4) {
        0 => {}
        1 => {
            for change in pending {
                file::apply(&mut bytes, change);
            }
        }
        2 => keep_prefix(&mut bytes, pending, random),
        _ => keep_sectors(&mut bytes, pending, random),
    }
    bytes
}

/// Writes reach the disk in order; the last one to do so is torn at any byte.
fn keep_prefix(bytes: &mut FileBytes, pending: &[Change], random: &mut SmallRng) {
    let kept = random.random_range(0..pending.len());
    for change in &pending[..kept] {
        file::apply(bytes, change);
    }
    match &pending[kept] {
        Change::Write(offset, written) => {
            let torn = random.random_range(0..=written.len());
            file::apply(bytes, &Change::Write(*offset, written[..torn].to_vec()));
        }
        Change::Length(_) => {}
    }
}

/// Writes reach the disk in any order, sector by sector; the file's length is that of any point in
/// its history.
fn keep_sectors(bytes: &mut FileBytes, pending: &[Change], random: &mut SmallRng) {
    let before = bytes.clone();
    let mut dirty: Vec<Range<usize>> = Vec::new();
    let kept = random.random_range(1..=pending.len());
    for change in &pending[..kept] {
        file::apply(bytes, change);
        if let Change::Write(offset, written) = change {
            dirty.push(*offset as usize..*offset as usize + written.len());
        }
    }
    for written in dirty {
        let mut start = written.start;
        while start < written.end.min(bytes.len()) {
            let end = ((start / SECTOR + 1) * SECTOR).min(written.end).min(bytes.len());
            match random.random_range(0..6) {
                0 | 1 => {
                    let old: Vec<u8> = (start..end).map(|at| before.byte(at)).collect();
                    bytes.write(start, &old);
                }
                // A sector rewritten with its durable content cannot turn into garbage.
                2 if before.len() < end || (start..end).any(|at| before.byte(at) != bytes.byte(at)) => {
                    let garbage: Vec<u8> = (start..end).map(|_| random.random()).collect();
                    bytes.write(start, &garbage);
                }
                _ => {}
            }
            start = end;
        }
    }
}
