//! Runs the tests of the embedded database for Python in an interpreter, with the library that
//! Cargo builds for this test. They need no other package.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn kit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kits/python").canonicalize().unwrap()
}

/// Returns the library.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().unwrap();
    let mut paths =
        [directory, directory.parent().unwrap()].map(|place| place.join("libcassette_python.so")).into_iter();
    paths.find(|path| path.exists()).unwrap_or_else(|| panic!("{}: no library", directory.display()))
}

/// Returns a program that is Python 3.9 or newer, if there is one.
fn python() -> Option<String> {
    let program = std::env::var("CASSETTE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let is_new = "import sys; sys.exit(sys.version_info < (3, 9))";
    let ended = Command::new(&program).args(["-c", is_new]).status();
    if ended.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    assert!(std::env::var_os("CASSETTE_REQUIRE_ORACLE").is_none(), "{program} is not Python 3.9 or newer");
    eprintln!("SKIPPED: {program} is not Python 3.9 or newer");
    None
}

#[test]
fn the_tests_of_the_embedded_database_pass_in_an_interpreter() {
    let Some(python) = python() else { return };
    // The package as in a wheel.
    let directory = tempfile::tempdir().unwrap();
    let package = directory.path().join("cassette");
    std::fs::create_dir(&package).unwrap();
    for file in std::fs::read_dir(kit().join("src/cassette")).unwrap() {
        let file = file.unwrap();
        symlink(file.path(), package.join(file.file_name())).unwrap();
    }
    symlink(library(), package.join("_embedded.abi3.so")).unwrap();

    // With the interpreter's checks of memory and of references.
    let ended = Command::new(python)
        .args(["-B", "-X", "dev", "-m", "unittest", "--verbose", "test_embedded"])
        .current_dir(kit().join("tests"))
        .env("PYTHONPATH", directory.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}\n{printed}", ended.status);
    assert!(!printed.contains("the package has no embedded database"), "{printed}");
    let ran =
        printed.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse::<u32>().ok());
    assert!(ran.is_some_and(|ran| ran > 20), "{printed}");
}
