//! Compares the manifests and the files with the layers in `ARCHITECTURE.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[path = "layering/modules.rs"]
mod modules;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The table of the page: each crate with its permitted imports.
fn plan() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("ARCHITECTURE.md");
    let rows = page.lines().skip_while(|l| !l.starts_with("| crate | may import")).skip(2);
    rows.take_while(|l| l.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let imports = cells[1].split(", ").filter(|i| *i != "-").map(str::to_owned).collect();
            (cells[0].to_owned(), imports)
        })
        .collect()
}

fn crates() -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join("crates")).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

/// The Rust files of all crates.
fn sources() -> Vec<(PathBuf, String)> {
    let (mut files, mut folders) = (Vec::new(), vec![root().join("crates")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
}

/// The crates of this workspace that `manifest` depends on, including tests and builds.
fn imports(manifest: &str) -> BTreeSet<String> {
    manifest
        .lines()
        .filter_map(|line| line.trim().strip_prefix("cassette-"))
        .map(|rest| rest.split(['.', ' ', '=']).next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_page_lists_every_crate() {
    let plan: BTreeSet<String> = plan().into_keys().collect();
    assert_eq!(plan, crates());
}

#[test]
fn imports_only_go_down() {
    let plan = plan();
    for name in crates() {
        let allowed = &plan[&name];
        let manifest = read(format!("crates/{name}/Cargo.toml"));
        let body = manifest.split_once("[dependencies]").map_or("", |(_, rest)| rest);
        for import in imports(body).into_iter().filter(|import| *import != name) {
            assert!(
                allowed.contains(&import) || allowed.contains("all"),
                "crates/{name} imports {import}; ARCHITECTURE.md allows {allowed:?}"
            );
        }
    }
}

#[test]
fn every_function_on_the_paths_through_the_code_exists() {
    let page = read("ARCHITECTURE.md");
    let mut steps = 0;
    for line in page.lines().filter(|line| line.starts_with("| `crates/")) {
        let mut names = line.split('`').skip(1).step_by(2);
        let file = names.next().unwrap();
        let text = read(file);
        for name in names {
            let is_defined = ["(", "<"].iter().any(|after| text.contains(&format!("fn {name}{after}")));
            assert!(is_defined, "{file} has no function {name}");
            steps += 1;
        }
    }
    assert!(steps > 30, "the page names {steps} functions");
}

#[test]
fn no_file_of_code_has_grown_into_two() {
    const LINES_MAX: usize = 800;
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
    }
}

#[test]
fn lines_of_code_have_at_most_120_columns() {
    const COLUMNS_MAX: usize = 120;
    let mut wide = Vec::new();
    for (path, text) in sources() {
        // The test of the language checks comments.
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let found = code.filter(|(_, line)| line.chars().count() > COLUMNS_MAX);
        wide.extend(found.map(|(at, _)| format!("{}:{}", path.display(), at + 1)));
    }
    assert!(wide.is_empty(), "lines of more than {COLUMNS_MAX} columns:\n{}", wide.join("\n"));
}

#[test]
fn every_setting_is_on_the_page_of_settings() {
    let page = read("docs/settings.md");
    let body = |file: &str, from: &str, to: &str| {
        let text = read(file);
        let body = text.split_once(from).unwrap_or_else(|| panic!("{file} has no {from}")).1;
        body.split_once(to).map_or(body, |(body, _)| body).to_owned()
    };
    let options =
        body("crates/database/src/schema/options/table_params.rs", "const OPTIONS: [&str; 21] = [", "];");
    let options = options.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
    let keys = body("crates/cli/src/config/mod.rs", "pub struct Config {", "\n}");
    let keys = keys.lines().filter_map(|line| Some(line.trim().split_once(": Option<")?.0));
    let all: Vec<&str> = options.chain(keys).collect();
    assert!(all.len() > 60, "{all:?}");
    for name in all {
        assert!(page.contains(&format!("`{name}`")), "docs/settings.md does not have {name}");
    }
}
