//! Checks that a test covers every code block of the documents.
//!
//! The tests are elsewhere: documentation tests of crates, `tests/clients`, the tests of
//! configurations and experiments, and those of the kits in `kits`, which contain the code of the
//! pages about them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{files, root};

/// A fenced block: the number of its first line, the words after the fence, the text.
type Block = (usize, String, String);

fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((number + 1, info.trim().to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, _, text))) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end: {open:?}");
    blocks
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The pages whose Rust code the documentation tests of crates compile and run.
fn pages_of_documentation_tests() -> BTreeSet<PathBuf> {
    let mut pages = BTreeSet::new();
    for directory in ["crates/cassette/src", "crates/test/src"] {
        let source = read(Path::new(directory).join("lib.rs"));
        let included = source.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next());
        pages.extend(included.map(|path| root().join(directory).join(path).canonicalize().unwrap()));
    }
    pages
}

/// The pages whose code is from the tests of the kits.
fn is_about_kits(page: &Path) -> bool {
    page.starts_with(root().join("kits")) || page == root().join("docs/testing.md")
}

/// Returns whether a test of the kits in this language contains `code`, indented in any way.
fn is_in_a_kit(extension: &str, code: &str) -> bool {
    let unindented = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let code = unindented(code);
    let sources = files(&root().join("kits"), extension);
    sources.iter().any(|path| unindented(&std::fs::read_to_string(path).unwrap()).contains(&code))
}

/// Returns whether the example in C, which a test compiles and runs, contains `code`.
fn is_in_the_example_for_c(code: &str) -> bool {
    read("crates/c/examples/example.c").contains(code)
}

/// Returns whether a test covers this block of `page`, or none is necessary.
fn is_covered(page: &Path, info: &str, code: &str) -> bool {
    let is_about_kits = is_about_kits(page);
    let name = page.file_name().unwrap().to_string_lossy();
    match info.split([' ', ',']).next().unwrap_or_default() {
        "python" | "ini" if is_about_kits => is_in_a_kit("py", code),
        "go" | "js" | "java" if is_about_kits => is_in_a_kit(info, code),
        "c" => is_in_the_example_for_c(code),
        "rust" => pages_of_documentation_tests().contains(page),
        "sh" | "cql" | "sql" | "python" => {
            let is_package = page.starts_with(root().join("crates"));
            !is_package && read("tests/clients/test_documents.py").contains(&format!("\"{name}\""))
        }
        // `config::tests` and `tests/laboratory.rs` of this crate.
        "yaml" => page.parent() == Some(&root().join("docs")),
        "toml" => page == root().join("docs/laboratory.md") || page == root().join("README.md"),
        // Output, diagrams, and commands that need another machine.
        "text" | "console" => true,
        _ => false,
    }
}

#[test]
fn a_test_covers_every_code_block_of_the_documents() {
    let mut uncovered = Vec::new();
    for page in files(&root(), "md") {
        let text = std::fs::read_to_string(&page).unwrap();
        for (line, info, _) in
            blocks(&text).into_iter().filter(|(_, info, code)| !is_covered(&page, info, code))
        {
            uncovered.push(format!("{}:{line}: {info:?}", page.strip_prefix(root()).unwrap().display()));
        }
    }
    assert!(uncovered.is_empty(), "blocks that no test covers: {uncovered:#?}");
}

#[test]
fn a_code_block_without_a_test_is_found() {
    let covered =
        |page: &str, info: &str| is_covered(&root().join(page), info, "an example that no test has");
    assert!(covered("README.md", "rust") && covered("docs/tutorial.md", "rust,no_run"));
    assert!(covered("docs/tutorial.md", "cql fails") && covered("docs/settings.md", "yaml"));
    assert!(!covered("docs/benchmarks.md", "rust") && !covered("docs/benchmarks.md", "sh"));
    assert!(!covered("crates/cli/README.md", "sh") && !covered("docs/settings.md", "toml"));
    assert!(!covered("README.md", "") && !covered("README.md", "go"));
    assert!(!covered("kits/go/README.md", "go") && !covered("docs/testing.md", "python"));
    assert!(!covered("docs/c-api.md", "c"));
    assert!(is_covered(&root().join("docs/testing.md"), "go", "server := cassettetest.Start(t)\n"));
    assert_eq!(blocks("a\n```sh x\nb\n```\n"), [(2, "sh x".to_owned(), "b\n".to_owned())]);
}

#[test]
fn the_dependency_on_the_front_page_has_features_that_exist() {
    let blocks = blocks(&read("README.md"));
    let [dependency] = &*blocks.iter().filter(|(_, info, _)| info == "toml").collect::<Vec<_>>() else {
        panic!("expected one block of toml");
    };
    let (_, features) = dependency.2.split_once("features = [").expect("features");
    let features = features.split_once(']').unwrap().0.split(", ").map(|name| name.trim_matches('"'));
    let manifest = read("crates/cassette/Cargo.toml");
    for feature in features {
        assert!(manifest.contains(&format!("\n{feature} = [")), "package cassette has no feature {feature}");
    }
    assert!(dependency.2.contains("cassette = {") && manifest.contains("name = \"cassette\""));
}
