//! Scripts that initialize a database before its first start.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use cassette_database::Options;
use cassette_shell::CqlArguments;
use clap::Parser;

/// In the data directory while scripts are executed: a start that finds it executes them again.
const UNFINISHED: &str = "cassette.initializing";

/// In every data directory of an earlier start.
const VERSION: &str = "cassette.version";

/// The command line of the shell.
#[derive(Debug, Parser)]
struct Shell {
    #[command(flatten)]
    arguments: CqlArguments,
}

/// Executes the scripts `*.cql` of `directory` in the order of their names, in the database at
/// `data` that no server has open yet, so that no client connects in between. Does nothing if the
/// database existed before, unless its initialization was not finished.
///
/// # Errors
/// If a statement fails, or a script is not CQL: the image has no shell.
pub fn execute(
    directory: &Path,
    data: &Path,
    options: &dyn Fn(&Path) -> anyhow::Result<Options>,
) -> anyhow::Result<()> {
    let unfinished = data.join(UNFINISHED);
    if data.join(VERSION).exists() && !unfinished.exists() {
        return Ok(());
    }
    let scripts = scripts(directory)?;
    if scripts.is_empty() {
        return Ok(());
    }
    let create = || {
        DirBuilder::new().recursive(true).mode(0o700).create(data)?;
        File::create(&unfinished)?.sync_all()
    };
    create().with_context(|| format!("cannot write to {}", data.display()))?;
    for script in scripts {
        eprintln!("cassette: executing {}", script.display());
        let words = [Path::new("cqlsh"), Path::new("--data"), data, Path::new("--file"), &script];
        let shell = Shell::try_parse_from(words)?;
        let options = |data: &Path| options(data).map_err(|error| format!("{error:#}"));
        if cassette_shell::run(&shell.arguments, &options) != ExitCode::SUCCESS {
            bail!(
                "{} failed: repair it, and start again with an empty volume, or with statements that can be \
                 repeated (IF NOT EXISTS)",
                script.display()
            );
        }
    }
    fs::remove_file(&unfinished).with_context(|| format!("cannot remove {}", unfinished.display()))
}

/// Returns the scripts of a directory, none if it does not exist.
fn scripts(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let read =
        || fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut files = read().with_context(|| format!("cannot read {}", directory.display()))?;
    files.sort();
    let extension =
        |path: &Path| path.extension().and_then(|extension| extension.to_str()).map(str::to_owned);
    for path in &files {
        match extension(path).as_deref() {
            Some("cql") => {}
            Some("sh") => bail!("{}: expected *.cql: the image has no shell", path.display()),
            _ => eprintln!("cassette: ignoring {}: expected *.cql", path.display()),
        }
    }
    files.retain(|path| extension(path).as_deref() == Some("cql"));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use cassette_database::Database;

    use super::*;

    const KEYSPACE: &str =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};";

    fn options(data: &Path) -> anyhow::Result<Options> {
        Ok(Options::new(data))
    }

    fn count(data: &Path) -> usize {
        let database = Database::open(data).unwrap();
        let count = database.session().execute("SELECT * FROM k.t", ()).unwrap().into_iter().count();
        database.close().unwrap();
        count
    }

    #[test]
    fn scripts_are_executed_in_order_and_once() {
        let temporary = tempfile::tempdir().unwrap();
        let (scripts, data) = (temporary.path().join("scripts"), temporary.path().join("data"));
        fs::create_dir(&scripts).unwrap();
        fs::write(scripts.join("2.cql"), "INSERT INTO k.t (k) VALUES (uuid());").unwrap();
        fs::write(scripts.join("1.cql"), format!("{KEYSPACE}CREATE TABLE k.t (k uuid PRIMARY KEY);"))
            .unwrap();
        fs::write(scripts.join("README"), "ignored").unwrap();
        execute(&scripts, &data, &options).unwrap();
        execute(&scripts, &data, &options).unwrap();
        assert_eq!(count(&data), 1);
    }

    #[test]
    fn scripts_of_a_failed_start_are_executed_again() {
        let temporary = tempfile::tempdir().unwrap();
        let (scripts, data) = (temporary.path().join("scripts"), temporary.path().join("data"));
        fs::create_dir(&scripts).unwrap();
        fs::write(scripts.join("1.cql"), format!("{KEYSPACE}CREATE TABLE k.t (k uuid);")).unwrap();
        let error = execute(&scripts, &data, &options).unwrap_err().to_string();
        assert!(error.contains("1.cql failed"), "{error}");
        let table = "CREATE TABLE k.t (k uuid PRIMARY KEY); INSERT INTO k.t (k) VALUES (uuid());";
        fs::write(scripts.join("1.cql"), table).unwrap();
        execute(&scripts, &data, &options).unwrap();
        assert_eq!(count(&data), 1);
    }

    #[test]
    fn scripts_for_a_shell_are_refused() {
        let temporary = tempfile::tempdir().unwrap();
        fs::write(temporary.path().join("1.sh"), "true").unwrap();
        let error = execute(temporary.path(), &temporary.path().join("data"), &options).unwrap_err();
        assert!(error.to_string().contains("the image has no shell"), "{error}");
    }

    #[test]
    fn without_scripts_nothing_is_created() {
        let temporary = tempfile::tempdir().unwrap();
        let data = temporary.path().join("data");
        execute(&temporary.path().join("none"), &data, &options).unwrap();
        assert!(!data.exists());
    }
}
