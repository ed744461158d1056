//! Built-in experiments.

/// Names and files of the built-in experiments.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("cassandra-caches-and-lcs", include_str!("cassandra-caches-and-lcs.toml")),
    ("overlapping-tombstones", include_str!("overlapping-tombstones.toml")),
    ("leveldb-tuning", include_str!("leveldb-tuning.toml")),
    ("transactions-table", include_str!("transactions-table.toml")),
    ("cell-loader", include_str!("cell-loader.toml")),
    ("scale-out-quorum", include_str!("scale-out-quorum.toml")),
];

/// Returns the file of the built-in experiment `name`.
pub fn find(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::super::file::ExperimentFile;
    use super::*;

    #[test]
    fn built_in_experiments_are_valid_and_named_as_listed() {
        for (name, text) in BUILT_IN {
            let file = ExperimentFile::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(file.name.get_ref(), name);
            assert!(!file.title.is_empty() && !file.description.is_empty(), "{name}");
            let phases: Vec<String> = file.phase.iter().map(|phase| phase.get_ref().label()).collect();
            let configurations: Vec<&str> = file
                .configuration
                .iter()
                .map(|configuration| configuration.get_ref().name.as_str())
                .collect();
            for published in &file.published {
                assert!(phases.contains(&published.phase), "{name}: {}", published.phase);
                assert!(
                    configurations.contains(&published.configuration.as_str()),
                    "{name}: {}",
                    published.configuration
                );
            }
        }
    }
}
