//! The parts of an experiment and their order.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::engines;
use super::file::{ConfigurationSpec, EngineSpec, ExperimentFile, FileError, Settings};

/// One engine in one configuration, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Position in the order, from 1.
    pub number: usize,
    /// Repeat, from 1.
    pub repeat: usize,
    /// Name of the engine.
    pub engine: String,
    /// Name of the configuration.
    pub configuration: String,
}

impl Part {
    /// Returns what it measures, without the repeat.
    pub fn label(&self) -> String {
        label(&self.engine, &self.configuration)
    }
}

/// Joins the names of an engine and a configuration.
pub fn label(engine: &str, configuration: &str) -> String {
    format!("{engine}, {configuration}")
}

/// An engine with its complete configuration.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The engine.
    pub engine: EngineSpec,
    /// Name of the configuration, including the matrix values.
    pub configuration: String,
    /// Options of the engine: its own, the configuration's, the matrix's; later ones override.
    pub options: Settings,
    /// Table options (WITH …) of record tables.
    pub table: String,
    /// Values of `{name}` in schemas and CQL phases.
    pub variables: BTreeMap<String, String>,
}

/// All setups, and the order of the parts.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Setups in the order of the file.
    pub setups: Vec<Setup>,
    /// Parts in the order of execution.
    pub parts: Vec<Part>,
}

impl Plan {
    /// Plans `file` with source `text`, for the engines in `only`, or for all that are not
    /// optional.
    pub fn new(file: &ExperimentFile, text: &str, only: &[String]) -> Result<Self, FileError> {
        for name in only {
            if !file.engine.iter().any(|engine| engine.get_ref().label() == name) {
                let known: Vec<&str> = file.engine.iter().map(|engine| engine.get_ref().label()).collect();
                let message = format!("unknown engine {name:?}: expected one of {}", known.join(", "));
                return Err(FileError::at(text, 0, message));
            }
        }
        let none = [default_configuration()];
        let configurations = if file.configuration.is_empty() { &none[..] } else { &file.configuration[..] };
        let mut setups = Vec::new();
        for engine in &file.engine {
            let wanted = match only {
                [] => !engine.get_ref().optional,
                only => only.iter().any(|name| name == engine.get_ref().label()),
            };
            if !wanted {
                continue;
            }
            for configuration in configurations {
                let spec = configuration.get_ref();
                let for_it = spec.engines.iter().any(|name| name.get_ref() == engine.get_ref().label());
                if !(spec.engines.is_empty() || for_it) {
                    continue;
                }
                for (suffix, values) in combinations(file) {
                    let mut options = engine.get_ref().options.clone();
                    options.extend(spec.options.clone());
                    options.extend(values);
                    let setup = Setup {
                        engine: engine.get_ref().clone(),
                        configuration: configuration_name(file, spec, &suffix),
                        options,
                        table: spec.table.clone(),
                        variables: spec.variables.clone(),
                    };
                    engines::check(&setup).map_err(|message| {
                        let at = place(file, text, engine, configuration, &setup, &message);
                        FileError::at(text, at, message)
                    })?;
                    setups.push(setup);
                }
            }
        }
        if setups.is_empty() {
            return Err(FileError::at(text, 0, "no configuration applies to the engines to measure"));
        }
        let parts = order(&setups, *file.repeats.get_ref(), file.seed);
        Ok(Self { setups, parts })
    }

    /// Returns the setup of a part.
    pub fn setup(&self, part: &Part) -> Option<&Setup> {
        self.setups
            .iter()
            .find(|setup| setup.engine.label() == part.engine && setup.configuration == part.configuration)
    }
}

/// The configuration of a file without any.
fn default_configuration() -> Spanned<ConfigurationSpec> {
    Spanned::new(0..0, ConfigurationSpec { name: "default".into(), ..Default::default() })
}

/// Returns the name of a configuration including the matrix values.
fn configuration_name(file: &ExperimentFile, spec: &ConfigurationSpec, suffix: &str) -> String {
    match (suffix, file.configuration.is_empty()) {
        ("", _) => spec.name.clone(),
        (suffix, true) => suffix.to_owned(),
        (suffix, false) => format!("{} {suffix}", spec.name),
    }
}

/// Returns the names of all configurations in the order of the file.
pub fn configuration_names(file: &ExperimentFile) -> Vec<String> {
    let none = [default_configuration()];
    let configurations = if file.configuration.is_empty() { &none[..] } else { &file.configuration[..] };
    let suffixes: Vec<String> = combinations(file).into_iter().map(|(suffix, _)| suffix).collect();
    let names_of = |spec: &Spanned<ConfigurationSpec>| -> Vec<String> {
        suffixes.iter().map(|suffix| configuration_name(file, spec.get_ref(), suffix)).collect()
    };
    configurations.iter().flat_map(names_of).collect()
}

/// Returns the position in `text` of the error `message`: of the option it names, in the matrix,
/// the configuration or the engine, whichever overrides the others; else of the engine.
fn place(
    file: &ExperimentFile,
    text: &str,
    engine: &Spanned<EngineSpec>,
    configuration: &Spanned<ConfigurationSpec>,
    setup: &Setup,
    message: &str,
) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = |name: &&String| message.split(|c| !is_part(c)).any(|word| word == name.as_str());
    // An engine's message may list the valid options after the invalid one.
    let position = |name: &&String| message.find(name.as_str());
    let Some(name) = setup.options.keys().filter(named).min_by_key(position) else {
        return engine.span().start;
    };
    if let Some(values) = file.matrix.get(name) {
        return values.span().start;
    }
    let within =
        if configuration.get_ref().options.contains_key(name) { configuration.span() } else { engine.span() };
    place_in_table(text, within.start, name)
}

/// Returns the position of `word` in the `[[table]]` of `text` that begins at `start`, or that
/// beginning.
pub(crate) fn place_in_table(text: &str, start: usize, word: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let rest = text.get(start..).unwrap_or_default();
    let part = rest.split_once("\n[[").map_or(rest, |(part, _)| part);
    let whole = |at: &usize| {
        let (before, after) = (&part[..*at], &part[at + word.len()..]);
        !(before.ends_with(is_part) || after.starts_with(is_part))
    };
    start + part.match_indices(word).map(|(at, _)| at).find(whole).unwrap_or(0)
}

/// Returns every combination of the matrix values with its name; one without a name if there is no
/// matrix.
fn combinations(file: &ExperimentFile) -> Vec<(String, Settings)> {
    let mut all = vec![(String::new(), Settings::new())];
    for (name, values) in &file.matrix {
        all = all
            .into_iter()
            .flat_map(|(suffix, settings)| {
                values.get_ref().iter().map(move |value| {
                    let mut settings = settings.clone();
                    settings.insert(name.clone(), value.clone());
                    (format!("{suffix} {name}={value}").trim().to_owned(), settings)
                })
            })
            .collect();
    }
    all
}

/// Orders the repeats one after the other, each with all setups in a random order: slow changes (a
/// filling disk, a waking neighbour) then affect all setups alike, not the last one.
fn order(setups: &[Setup], repeats: usize, seed: u64) -> Vec<Part> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut parts = Vec::new();
    for repeat in 1..=repeats {
        let mut shuffled: Vec<&Setup> = setups.iter().collect();
        shuffled.shuffle(&mut rng);
        for setup in shuffled {
            parts.push(Part {
                number: parts.len() + 1,
                repeat,
                engine: setup.engine.label().to_owned(),
                configuration: setup.configuration.clone(),
            });
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::NOOP;
    use super::*;

    fn plan(text: &str) -> Result<Plan, FileError> {
        Plan::new(&ExperimentFile::parse(text).unwrap(), text, &[])
    }

    #[test]
    fn each_repeat_has_every_configuration_once_in_random_order() {
        let text = NOOP.replace("repeats = 2", "repeats = 20");
        let made = plan(&text).unwrap();
        assert_eq!(made.parts.len(), 40);
        let firsts: Vec<&str> = made.parts.chunks(2).map(|repeat| repeat[0].configuration.as_str()).collect();
        assert!(firsts.contains(&"one") && firsts.contains(&"two"));
        for (index, repeat) in made.parts.chunks(2).enumerate() {
            assert_ne!(repeat[0].configuration, repeat[1].configuration);
            assert!(repeat.iter().all(|part| part.repeat == index + 1));
        }
        assert_eq!(made.parts, plan(&text).unwrap().parts, "the same seed gives the same order");
        assert_ne!(made.parts, plan(&text.replace("repeats", "seed = 2\nrepeats")).unwrap().parts);
    }

    #[test]
    fn a_matrix_adds_every_combination_to_every_configuration() {
        let text = NOOP.replace("kind = \"noop\"", "kind = \"embedded\"")
            + "\n[matrix]\nfile_cache_size = ['1MiB', '2MiB']\nconcurrent_compactors = [1, 2]\n";
        let made = plan(&text).unwrap();
        assert_eq!(made.setups.len(), 8);
        let names: Vec<&str> = made.setups.iter().map(|setup| setup.configuration.as_str()).collect();
        assert!(names.contains(&"one concurrent_compactors=2 file_cache_size=1MiB"), "{names:?}");
        assert_eq!(configuration_names(&ExperimentFile::parse(&text).unwrap()), names);
        let text = NOOP.replace("kind = \"noop\"", "kind = \"embedded\"")
            + "\n[matrix]\nconcurrent_compactors = [9, 10]\n";
        // In the order of the file, not alphabetically.
        let names = configuration_names(&ExperimentFile::parse(&text).unwrap());
        assert_eq!(names[..2], ["one concurrent_compactors=9", "one concurrent_compactors=10"]);
    }

    #[test]
    fn unknown_engine_options_are_rejected_with_their_line() {
        let text = NOOP.replace("name = \"two\"", "name = \"two\"\noptions = { nosuch = 1 }");
        let error = plan(&text).unwrap_err();
        assert!((error.line, error.column) == (13, 13) && error.message.contains("nosuch"), "{error}");
        let embedded = NOOP.replace("kind = \"noop\"", "kind = \"embedded\"");
        let error =
            plan(&(embedded.clone() + "\n[matrix]\nfile_cache_size = ['1MiB', 'much']\n")).unwrap_err();
        assert!((error.line, error.column) == (27, 19) && error.message.contains("much"), "{error}");
        let of_engine =
            "kind = \"embedded\"\noptions = { row_cache_size = \"1MiB\", file_cache_size = \"much\" }";
        let error = plan(&NOOP.replace("kind = \"noop\"", of_engine)).unwrap_err();
        assert!((error.line, error.column) == (7, 38) && error.message.contains("much"), "{error}");
        let unknown = Plan::new(&ExperimentFile::parse(NOOP).unwrap(), NOOP, &["rocksdb".into()]);
        assert!(unknown.unwrap_err().message.contains("noop"));
    }

    #[test]
    fn optional_engines_are_measured_on_request() {
        let text = NOOP.replace(
            "[[configuration]]\nname = \"one\"",
            "[[engine]]\nname = \"more\"\nkind = \"noop\"\noptional = true\n\n\
             [[configuration]]\nname = \"one\"",
        );
        let file = ExperimentFile::parse(&text).unwrap();
        assert_eq!(Plan::new(&file, &text, &[]).unwrap().setups.len(), 2);
        let asked = Plan::new(&file, &text, &["more".into(), "noop".into()]).unwrap();
        assert_eq!(asked.setups.len(), 4);
    }
}
