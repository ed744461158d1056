//! The log: to standard error or to files, as text or JSON. `cassette nodetool setlogginglevel`
//! changes its levels at runtime.

mod file;
mod format;
mod levels;
mod recent;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use cassette_server::admin::{LogLevels, LogLine};
use cassette_tools::units::bytes;
use clap::{Args, ValueEnum};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use self::file::LogFile;
use self::format::Json;
use self::levels::{Levels, ROOT};
use self::recent::Recent;

/// The environment variable with the levels at the start.
const VARIABLE: &str = "CASSETTE_LOG";

/// How and where the process logs.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArguments {
    /// The format of the log; `json` is one object a line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,

    /// Log to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,

    /// Rotate the log file before it exceeds this size
    #[arg(long, value_name = "SIZE", default_value = "100MiB", value_parser = bytes)]
    log_file_size: u64,

    /// The number of rotated log files to keep: FILE.1 is the newest
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    log_files_kept: u32,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Starts logging with the levels of the environment variable `CASSETTE_LOG`.
///
/// # Errors
/// If that variable is invalid, or the file cannot be opened.
pub fn init(arguments: &LogArguments) -> anyhow::Result<Arc<dyn LogLevels>> {
    let asked = std::env::var_os(VARIABLE).unwrap_or_else(|| "info".into());
    let first = Levels::parse(&asked.to_string_lossy()).map_err(|reason| {
        anyhow::anyhow!("invalid {VARIABLE}: {reason}; an example is {VARIABLE}=info,cassette_engine=debug")
    })?;
    let writer = match &arguments.log_file {
        None => BoxMakeWriter::new(std::io::stderr),
        Some(path) => {
            let file = LogFile::open(path, arguments.log_file_size, arguments.log_files_kept);
            BoxMakeWriter::new(file.with_context(|| format!("cannot write the log file {}", path.display()))?)
        }
    };
    let (filter, handle) = reload::Layer::new(first.filter());
    let lines: Box<dyn Layer<Filtered> + Send + Sync> = match arguments.log_format {
        LogFormat::Text => fmt::layer().with_writer(writer).boxed(),
        LogFormat::Json => fmt::layer().event_format(Json).with_writer(writer).boxed(),
    };
    let recent = Recent::default();
    tracing_subscriber::registry().with(filter).with(lines).with(recent.clone()).init();
    let apply = move |levels: &Levels| apply(&handle, levels);
    Ok(Arc::new(Logging { now: Mutex::new(first.clone()), first, apply: Box::new(apply), recent }))
}

/// The registry below the layer that writes lines.
type Filtered = tracing_subscriber::layer::Layered<reload::Layer<EnvFilter, Registry>, Registry>;

fn apply<S>(handle: &Handle<EnvFilter, S>, levels: &Levels) -> Result<(), String> {
    handle.reload(levels.filter()).map_err(|error| format!("cannot change what is logged: {error}"))
}

struct Logging {
    first: Levels,
    now: Mutex<Levels>,
    apply: Box<Apply>,
    recent: Recent,
}

/// Applies levels.
type Apply = dyn Fn(&Levels) -> Result<(), String> + Send + Sync;

impl Logging {
    fn now(&self) -> MutexGuard<'_, Levels> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogLevels for Logging {
    fn levels(&self) -> Vec<(String, String)> {
        let levels = self.now();
        let root = (ROOT.to_owned(), levels.root.clone());
        let modules = levels.modules.iter().map(|(module, level)| (module.clone(), level.clone()));
        std::iter::once(root).chain(modules).collect()
    }

    fn set(&self, target: &str, level: &str) -> Result<(), String> {
        let mut now = self.now();
        let changed = now.with(&self.first, target, level)?;
        (self.apply)(&changed)?;
        *now = changed;
        Ok(())
    }

    fn recent_lines(&self) -> Vec<LogLine> {
        self.recent.lines()
    }
}
