//! `cassette cql`: the shell.

use std::path::Path;
use std::process::ExitCode;

use cassette_database::Options;
use cassette_shell::CqlArguments;

use crate::config::Config;

/// Runs the shell.
pub fn run(arguments: &CqlArguments) -> ExitCode {
    let options = |data: &Path| options(arguments, data).map_err(|error| format!("{error:#}"));
    cassette_shell::run(arguments, &options)
}

/// Returns the options of the database in a directory. The user of the files is not authenticated:
/// who can read them needs no password.
fn options(arguments: &CqlArguments, data: &Path) -> anyhow::Result<Options> {
    let config = match &arguments.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    let mut options = config.database(data)?;
    options.auth.passwords = false;
    options.auth.certificates = false;
    Ok(options)
}
