//! `cassette container`: the entry point of the container image.
//!
//! It translates the environment variables of Cassandra's image into arguments of `cassette serve`,
//! and executes scripts before the first start.

mod environment;
mod health;
mod scripts;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::address::listen_address;
use crate::config::Config;

/// Arguments of `cassette container`.
#[derive(Debug, Args)]
pub struct ContainerArguments {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cassandra")]
    data: PathBuf,

    /// The configuration file, if it exists
    #[arg(long, value_name = "FILE", default_value = "/etc/cassandra/cassandra.yaml")]
    config: PathBuf,

    /// A directory with scripts of CQL, *.cql, which are executed in the order of their names
    /// before the first start
    #[arg(long, value_name = "DIR", default_value = "/docker-entrypoint-initdb.d")]
    scripts: PathBuf,

    /// Check that the server of this container answers, and end: the health check of the image
    #[arg(long)]
    check: bool,

    /// Further arguments of `cassette serve`
    #[arg(last = true, value_name = "ARGUMENTS")]
    further: Vec<String>,
}

/// Executes the scripts if this is the first start, and calls `serve` with the words of a command
/// line; or checks that the server answers.
pub fn run(
    arguments: &ContainerArguments,
    serve: impl FnOnce(Vec<String>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let settings = environment::settings(|name| std::env::var(name).ok())?;
    let path = arguments.config.is_file().then_some(&*arguments.config);
    let read = || path.map_or_else(|| Ok(Config::default()), Config::read);
    let port = read()?.server()?.listen_address.port();
    if arguments.check {
        let address = settings.address(port);
        return health::check(
            listen_address(&address).map_err(|error| anyhow::anyhow!("{address}: {error}"))?,
        );
    }
    for warning in &settings.warnings {
        eprintln!("cassette: {warning}");
    }
    let options = |data: &Path| {
        let mut options = read()?.database(data)?;
        settings.apply(&mut options.node);
        // The scripts are executed in the name of who owns the files.
        options.auth.passwords = false;
        options.auth.certificates = false;
        Ok(options)
    };
    scripts::execute(&arguments.scripts, &arguments.data, &options)
        .context("cannot initialize the database")?;
    let words = words(arguments, path, settings.arguments(port))?;
    eprintln!("cassette: starting {}", words.join(" "));
    serve(words)
}

/// Returns the command line of the server.
fn words(
    arguments: &ContainerArguments,
    config: Option<&Path>,
    settings: Vec<String>,
) -> anyhow::Result<Vec<String>> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
    let mut words =
        vec!["cassette".to_owned(), "serve".to_owned(), "--data".to_owned(), text(&arguments.data)?];
    if let Some(config) = config {
        words.extend(["--config".to_owned(), text(config)?]);
    }
    words.extend(settings);
    words.extend(arguments.further.iter().cloned());
    Ok(words)
}
