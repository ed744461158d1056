//! Counter contexts.
//!
//! ```text
//! i16 h     number of header elements
//! i16 * h   (index of a shard) - 32768: global;  the bare index: local (before 2.1)
//! shard *   16 bytes counter id, i64 clock, i64 count      ascending by id, unsigned
//! ```

const SHARD_LENGTH: usize = 32;

/// One node's part of a counter.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shard<'a> {
    id: &'a [u8],
    clock: i64,
    count: i64,
    kind: Kind,
}

/// Determines how a shard merges with another of the same id. The greater kind wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Remote,
    Local,
    Global,
}

/// Returns the shards of a context; none if the bytes are not a context.
fn shards(context: &[u8]) -> impl Iterator<Item = Shard<'_>> {
    let parse = || {
        let (count, rest) = context.split_first_chunk::<2>()?;
        let count = usize::try_from(i16::from_be_bytes(*count)).ok()?;
        let (header, body) = rest.split_at_checked(2 * count)?;
        Some((header, body))
    };
    let (header, body) = parse().unwrap_or_default();
    body.chunks_exact(SHARD_LENGTH).enumerate().map(move |(index, shard)| {
        let element = header
            .chunks_exact(2)
            .map(|e| i16::from_be_bytes([e[0], e[1]]))
            .find(|e| (*e as u16 & 0x7fff) as usize == index);
        let kind = match element {
            None => Kind::Remote,
            Some(e) if e < 0 => Kind::Global,
            Some(_) => Kind::Local,
        };
        let long = |at: usize| shard[at..].first_chunk::<8>().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        Shard { id: &shard[..16], clock: long(16), count: long(24), kind }
    })
}

/// The counter's value: the sum of all counts, wrapping.
pub fn total(context: &[u8]) -> i64 {
    shards(context).fold(0, |sum, shard| sum.wrapping_add(shard.count))
}

/// Returns the context of the count of one node: `count` as of `clock`.
pub fn global(id: &[u8; 16], clock: i64, count: i64) -> Vec<u8> {
    encode(&[Shard { id, clock, count, kind: Kind::Global }])
}

/// Returns a context that represents an increment until it is added to a count; several of them add
/// up. Never stored.
pub fn increment(by: i64) -> Vec<u8> {
    encode(&[Shard { id: &[0; 16], clock: 1, count: by, kind: Kind::Local }])
}

/// Returns clock and count of the node `id`, if the context contains them.
pub fn of_node(context: &[u8], id: &[u8; 16]) -> Option<(i64, i64)> {
    shards(context).find(|shard| shard.id == id).map(|shard| (shard.clock, shard.count))
}

/// Merges two contexts: per id the global shard wins, and of two global ones that with the later
/// clock.
pub fn merge(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (mut left, mut right) = (shards(a).peekable(), shards(b).peekable());
    let mut out: Vec<Shard<'_>> = Vec::new();
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(l), Some(r)) => l.id.cmp(r.id),
        };
        match order {
            std::cmp::Ordering::Less => out.extend(left.next()),
            std::cmp::Ordering::Greater => out.extend(right.next()),
            std::cmp::Ordering::Equal => {
                if let (Some(l), Some(r)) = (left.next(), right.next()) {
                    out.push(merge_shards(l, r));
                }
            }
        }
    }
    encode(&out)
}

fn merge_shards<'a>(l: Shard<'a>, r: Shard<'a>) -> Shard<'a> {
    match (l.kind, r.kind) {
        // Two local shards are deltas of the same node, which are added.
        (Kind::Local, Kind::Local) => {
            Shard { clock: l.clock.wrapping_add(r.clock), count: l.count.wrapping_add(r.count), ..l }
        }
        (lk, rk) if lk != rk => {
            if lk > rk {
                l
            } else {
                r
            }
        }
        _ if l.clock != r.clock => {
            if l.clock > r.clock {
                l
            } else {
                r
            }
        }
        _ => {
            if l.count >= r.count {
                l
            } else {
                r
            }
        }
    }
}

fn encode(shards: &[Shard<'_>]) -> Vec<u8> {
    let listed = shards.iter().filter(|s| s.kind != Kind::Remote).count();
    let mut out = Vec::with_capacity(2 + 2 * listed + SHARD_LENGTH * shards.len());
    out.extend_from_slice(&(listed as i16).to_be_bytes());
    for (index, shard) in shards.iter().enumerate() {
        match shard.kind {
            Kind::Remote => {}
            Kind::Local => out.extend_from_slice(&(index as i16).to_be_bytes()),
            Kind::Global => out.extend_from_slice(&(index as i16).wrapping_add(i16::MIN).to_be_bytes()),
        }
    }
    for shard in shards {
        out.extend_from_slice(shard.id);
        out.extend_from_slice(&shard.clock.to_be_bytes());
        out.extend_from_slice(&shard.count.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(id: u8, clock: i64, count: i64) -> Vec<u8> {
        let id = [id; 16];
        encode(&[Shard { id: &id, clock, count, kind: Kind::Global }])
    }

    #[test]
    fn of_one_node_the_later_clock_wins_and_nodes_add_up() {
        let merged = merge(&global(1, 5, 50), &global(1, 6, 40));
        assert_eq!((total(&merged), merged.len()), (40, 2 + 2 + 32));
        let merged = merge(&merged, &global(0, 1, 2));
        assert_eq!(total(&merged), 42);
        assert_eq!(&merged[..6], &[0, 2, 0x80, 0, 0x80, 1]);
    }

    #[test]
    fn increments_add_up_and_a_node_finds_its_own_count() {
        assert_eq!(total(&merge(&increment(5), &increment(-7))), -2);
        let context = merge(&super::global(&[1; 16], 5, 50), &super::global(&[2; 16], 6, 60));
        assert_eq!(of_node(&context, &[2; 16]), Some((6, 60)));
        assert_eq!(of_node(&context, &[3; 16]), None);
    }

    #[test]
    fn bytes_that_are_no_context_count_nothing() {
        assert_eq!(total(&[]), 0);
        assert_eq!(total(&[0x7f, 0xff, 1]), 0);
        assert_eq!(total(&[0xff, 0xff, 1]), 0);
    }
}
