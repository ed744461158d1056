//! Completions for shells, and manual pages, for packages.

use std::io;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;

/// Arguments of `cassette completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Arguments of `cassette man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// The directory for the pages, which is created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completions of `command`.
pub fn completions(arguments: &CompletionsArguments, command: &mut Command) {
    clap_complete::generate(arguments.shell, command, "cassette", &mut io::stdout());
}

/// Writes a page for `command` and each of its subcommands, such as `cassette-serve.1`.
pub fn man(arguments: &ManArguments, command: Command) -> anyhow::Result<()> {
    let directory = &arguments.directory;
    let write = || {
        std::fs::create_dir_all(directory)?;
        clap_mangen::generate_to(command, directory)
    };
    write().with_context(|| format!("cannot write manual pages to {}", directory.display()))
}
