//! File descriptors: raises their limit, and divides them between storage and connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for neither storage nor CQL connections: listeners, connections to the admin
/// endpoint, standard streams, the event loop.
const OTHERS: u64 = 128;

/// Raises the soft limit of open files to the hard limit. Returns the resulting limit, or `None`
/// without a limit.
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

/// Returns the maximum number of CQL connections for a limit of `descriptors` open files: half of
/// them are reserved for storage, so that clients cannot exhaust those for writes and compactions.
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
