//! The versions of SSTables, and which Cassandra upgrades those that are not supported.

/// Returns what to do about SSTables of a version that is not supported.
pub(crate) fn advice(version: &str) -> &'static str {
    match version.as_bytes() {
        [b'i'..=b'l', _] => {
            "written by Cassandra 2: upgrade the node to Cassandra 3.11, run `nodetool upgradesstables`, then \
             `nodetool drain`, and adopt its directories"
        }
        _ => "written by a newer Cassandra, or another program: supported are ma to oa (big), and da (bti)",
    }
}

/// Returns the version in the name of a Data component that the `sstable` crate does not parse:
/// `ks-users-ka-1-Data.db`, before Cassandra 2.2.
pub(crate) fn old_version(file_name: &str) -> Option<&str> {
    let mut parts = file_name.strip_suffix("-Data.db")?.rsplit('-');
    parts.next().filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()))?;
    parts.next().filter(|version| version.len() == 2 && version.bytes().all(|b| b.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_the_cassandra_that_upgrades_it() {
        for (version, word) in [("la", "3.11"), ("ka", "3.11"), ("ob", "newer"), ("zz", "newer")] {
            assert!(advice(version).contains(word), "{version}");
        }
    }

    #[test]
    fn names_of_before_cassandra_2_2_contain_their_version() {
        assert_eq!(old_version("ks-users-ka-12-Data.db"), Some("ka"));
        assert_eq!(old_version("nb-1-big-Data.db"), None);
        assert_eq!(old_version("users-Data.db"), None);
    }
}
