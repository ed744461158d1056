//! The start of the shell: what is executed, and how it ends.

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::arguments::CqlArguments;
use crate::commands::read_script;
use crate::connect::{OptionsOf, connect};
use crate::cqlshrc::{Cqlshrc, expand_home};
use crate::error::{Result, command};
use crate::interactive;
use crate::output::Target;
use crate::session::Session;
use crate::shell::{Shell, Source};
use crate::values::{Color, Formats, TimestampFormat, zone};

/// The status if a statement failed.
const STATEMENT_FAILED: u8 = 2;

/// Runs `cassette cql`. `options` returns the options of databases in directories.
///
/// Returns the exit status: 0, 1 if there is no connection, or 2 if a statement failed and there is
/// no terminal.
pub fn run(arguments: &CqlArguments, options: OptionsOf<'_>) -> ExitCode {
    match run_shell(arguments, options) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(STATEMENT_FAILED),
        Err(error) => {
            eprintln!("cassette: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the shell executes.
enum Input {
    /// Statements of -e.
    Statements(String),
    /// A file or a pipe with its name.
    Script(String, String),
    /// What a user types.
    Terminal,
}

/// Runs the shell. Returns whether a statement failed.
fn run_shell(arguments: &CqlArguments, options: OptionsOf<'_>) -> Result<bool> {
    let path = arguments.cqlshrc.clone().unwrap_or_else(|| expand_home("~/.cassandra/cqlshrc"));
    if arguments.cqlshrc.is_some() && !path.exists() {
        return Err(command(format!("{}: no such file", path.display())));
    }
    let cqlshrc = Cqlshrc::read(&path)?;
    let input = read_input(arguments)?;
    let is_terminal = matches!(input, Input::Terminal);
    let interrupt = Arc::new(AtomicBool::new(false));
    let connected = connect(arguments, &cqlshrc, options, &interrupt)?;
    for warning in &connected.warnings {
        eprintln!("cassette: {warning}");
    }
    let session = Session::open(connected.endpoint, arguments.keyspace.as_deref())
        .map_err(|error| command(format!("Connection error: {error}")))?;
    let colored = colors(arguments, &cqlshrc);
    let mut shell = Shell::new(session, Target::standard(colored));
    shell.formats = formats(&cqlshrc)?;
    shell.interrupt = interrupt;
    shell.format = arguments.format;
    shell.is_terminal = is_terminal || arguments.tty;
    if let Some(wait) = cqlshrc.number::<f64>("tracing", "max_trace_wait").filter(|wait| *wait >= 0.0) {
        shell.trace_wait_max = Duration::try_from_secs_f64(wait).unwrap_or(shell.trace_wait_max);
    }
    shell.cqlshrc = cqlshrc;
    match input {
        Input::Statements(text) => shell.run(&text, &Source { name: "<stdin>", first_line: 1 }, true),
        Input::Script(name, text) => shell.run(&text, &Source { name: &name, first_line: 1 }, false),
        Input::Terminal => interactive::run(&mut shell, arguments.disable_history)?,
    }
    shell.out.flush();
    let has_failed = shell.has_failed && !is_terminal;
    drop(shell);
    if let Some(database) = connected.database {
        database.close().map_err(|error| command(format!("cannot close the database: {error}")))?;
    }
    Ok(has_failed)
}

fn read_input(arguments: &CqlArguments) -> Result<Input> {
    if !arguments.execute.is_empty() {
        // Each is complete without a semicolon.
        return Ok(Input::Statements(arguments.execute.join("\n;\n")));
    }
    if let Some(path) = arguments.file.as_deref().filter(|path| *path != Path::new("-")) {
        let text = read_script(path)
            .map_err(|error| command(format!("Can't open '{}': {error}", path.display())))?;
        return Ok(Input::Script(path.display().to_string(), text));
    }
    if arguments.file.is_none() && (std::io::stdin().is_terminal() || arguments.tty) {
        return Ok(Input::Terminal);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(Input::Script("<stdin>".to_owned(), text))
}

/// Returns whether output has colors: as the arguments say, else cqlshrc, else if it is a terminal
/// that has them.
fn colors(arguments: &CqlArguments, cqlshrc: &Cqlshrc) -> bool {
    if arguments.color || arguments.no_color {
        return arguments.color;
    }
    let term = std::env::var("TERM").unwrap_or_default();
    let has_colors = std::env::var_os("NO_COLOR").is_none() && !matches!(term.as_str(), "" | "dumb");
    let default = arguments.file.is_none() && std::io::stdout().is_terminal() && has_colors;
    cqlshrc.flag("ui", "color").unwrap_or(default)
}

/// Returns how values are shown, as cqlshrc and TZ set it.
fn formats(cqlshrc: &Cqlshrc) -> Result<Formats> {
    let mut formats = Formats::default();
    let option = |name| cqlshrc.number("ui", name);
    formats.float_precision = option("float_precision").or(formats.float_precision);
    formats.double_precision = option("double_precision").or(formats.double_precision);
    let environment = std::env::var("TZ").ok().filter(|name| !name.is_empty());
    let name = environment.or_else(|| cqlshrc.get("ui", "timezone").map(str::to_owned));
    let pattern = std::env::var("CQLSH_DEFAULT_TIMESTAMP_FORMAT").ok().filter(|text| !text.is_empty());
    let pattern = cqlshrc.get("ui", "time_format").map(str::to_owned).or(pattern);
    let default = TimestampFormat::default();
    formats.timestamp = TimestampFormat {
        pattern: pattern.unwrap_or(default.pattern),
        zone: match name {
            None => default.zone,
            Some(name) => zone(&name).unwrap_or_else(|| {
                let text = format!("Warning: could not recognize timezone '{name}': times are in UTC");
                eprintln!("{}", Color::Error.paint(&text, false));
                default.zone
            }),
        },
        milliseconds_only: false,
    };
    Ok(formats)
}
