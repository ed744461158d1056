//! File descriptors: raised to what the process may have, and shared between storage and connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for what is neither storage nor a CQL connection: listeners, connections to the admin endpoint, standard
/// streams, the event loop.
const OTHERS: u64 = 128;

/// Raises the soft limit of open files to the hard limit. Returns how many files the process may open then, or `None`
/// where there is no limit.
pub fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current;
    }
    let raised = Rlimit { current: limit.maximum, ..limit };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files from {:?}", limit.current);
            limit.current
        }
    }
}

/// How many CQL connections there may be when the process may open `descriptors` files: half of them are reserved for
/// storage, so that no client can take those that writes and compactions need.
pub fn connections_max(descriptors: u64) -> usize {
    let left = (descriptors / 2).saturating_sub(OTHERS).max(descriptors / 8).max(1);
    usize::try_from(left).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_descriptors_are_left_to_storage() {
        for (descriptors, connections) in [(1024, 384), (65536, 32640), (256, 32), (4, 1)] {
            assert_eq!(connections_max(descriptors), connections, "{descriptors}");
        }
    }
}
