//! `cassette version`: which build this is.

use std::env::consts::{ARCH, OS};

use cassette_database::RELEASE_VERSION;

/// The commit, as `make build` passes it to the compiler.
const COMMIT: Option<&str> = option_env!("CASSETTE_COMMIT");

/// Returns the version of this program, its commit, how it was built, and the version of Cassandra
/// that it implements, in lines of a name and a value.
pub fn describe() -> String {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let commit = COMMIT.filter(|commit| !commit.is_empty()).unwrap_or("unknown");
    format!(
        "cassette {}\ncommit {commit}\nbuild {profile}, {OS}, {ARCH}\ncassandra {RELEASE_VERSION}\n",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_name_and_a_value() {
        let text = describe();
        let names: Vec<_> =
            text.lines().filter_map(|line| line.split_once(' ')).map(|(name, _)| name).collect();
        assert_eq!(names, ["cassette", "commit", "build", "cassandra"]);
    }
}
