//! The header, and programs in C that are compiled with it and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the directory with the library, which Cargo builds for this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().unwrap();
    let with_library = [directory, directory.parent().unwrap()];
    let found = with_library.iter().find(|directory| directory.join("libcassette_c.so").exists());
    found.unwrap_or_else(|| panic!("{}: no library", directory.display())).to_path_buf()
}

/// Runs a program, which must succeed.
fn run(command: &mut Command) -> Output {
    let ended = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{command:?}: {}\n{out}{err}", ended.status);
    ended
}

/// Compiles a program, and returns its path. Its warnings are errors.
fn compiled(source: &str, directory: &Path) -> PathBuf {
    let program = directory.join("program");
    // The linker finds the library by the name that it has in packages.
    for name in ["libcassette.so", "libcassette.so.0"] {
        let link = directory.join(name);
        std::os::unix::fs::symlink(libraries().join("libcassette_c.so"), link).unwrap();
    }
    run(Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", "-g", "-I"])
        .arg(package().join("include"))
        .arg(package().join(source))
        .arg("-L")
        .arg(directory)
        .arg("-lcassette")
        .arg(format!("-Wl,-rpath,{}", directory.display()))
        .arg("-o")
        .arg(&program));
    program
}

#[test]
fn the_header_is_that_of_the_sources() {
    let configuration = cbindgen::Config::from_file(package().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(configuration);
    for module in
        ["failure", "error", "database", "session", "column_type", "statement", "bind", "rows", "column"]
    {
        builder = builder.with_src(package().join("src").join(module).with_extension("rs"));
    }
    let mut generated = Vec::new();
    builder.generate().unwrap().write(&mut generated);
    let path = package().join("include/cassette.h");
    let generated = String::from_utf8(generated).unwrap();
    if std::fs::read_to_string(&path).ok().as_ref() != Some(&generated) {
        let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cassette.h");
        std::fs::write(&written, generated).unwrap();
        panic!("{} is outdated: replace it by {}", path.display(), written.display());
    }
}

#[test]
fn the_example_reads_what_it_has_written() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled("examples/example.c", directory.path());
    let data = directory.path().join("data");
    for arguments in [&[][..], &[&data], &[&data]] {
        let printed = run(Command::new(&program).args(arguments)).stdout;
        assert_eq!(String::from_utf8(printed).unwrap(), "1 grace -\n0 ada {'first', 'poet'}\n2 edsger -\n");
    }
    assert!(data.is_dir());
}

#[test]
fn every_function_has_its_result_and_its_mistakes() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled("tests/interface.c", directory.path());
    let printed = run(Command::new(program).arg(directory.path().join("data"))).stdout;
    assert_eq!(printed, b"passed\n");
}

#[test]
fn a_program_finds_the_library_of_the_package() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libcassette.so");
    // As `make library` does; symbols would take long to compress.
    run(Command::new("objcopy").arg("--strip-all").arg(libraries().join("libcassette_c.so")).arg(&library));
    let build = package().join("../../packaging/build/library.py");
    run(Command::new(build).env("SOURCE_DATE_EPOCH", "0").arg(directory.path()).arg(library));
    let mut archives = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let archive = archives.find(|path| path.extension().is_some_and(|found| found == "gz")).unwrap();
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(directory.path()));
    let unpacked = archive.with_extension("").with_extension("");
    let program = directory.path().join("program");
    run(Command::new("cc")
        .arg(package().join("examples/example.c"))
        .arg(format!("-I{}", unpacked.join("include").display()))
        .arg(format!("-L{}", unpacked.join("lib").display()))
        .args(["-lcassette", "-o"])
        .arg(&program));
    let printed = run(Command::new(program).env("LD_LIBRARY_PATH", unpacked.join("lib"))).stdout;
    assert!(printed.starts_with(b"1 grace"));
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "cassette"])
        .env("PKG_CONFIG_PATH", unpacked.join("lib/pkgconfig"))
        .output();
    if let Ok(flags) = flags {
        let flags = String::from_utf8(flags.stdout).unwrap();
        assert!(flags.contains("-lcassette") && flags.contains("include"), "{flags}");
    }
}

#[test]
fn programs_lose_no_memory_and_use_none_that_was_freed() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIPPED: valgrind is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compiled("tests/interface.c", directory.path());
    run(Command::new("valgrind")
        .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
        .args(["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"])
        .arg(program)
        .arg(directory.path().join("data")));
}
