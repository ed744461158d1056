//! Compares the layers of a crate's modules in `ARCHITECTURE.md` with the paths in the files.
//!
//! A path is every `crate::…`, `self::…` or `super::…`, in `use` declarations and elsewhere.
//! Modules of tests are exempt: they work on the public API, which is the top layer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{crates, read, root};

/// The layers of a crate's top modules, from the top.
type Layers = Vec<Vec<String>>;

/// The tables of the page: `| modules of <crate>, from the top | … |`.
fn tables() -> BTreeMap<String, Layers> {
    let page = read("ARCHITECTURE.md");
    let mut lines = page.lines();
    let mut tables = BTreeMap::new();
    while let Some(line) = lines.next() {
        let Some((name, _)) = line.strip_prefix("| modules of ").and_then(|rest| rest.split_once(',')) else {
            continue;
        };
        let rows = lines.by_ref().skip(1).take_while(|line| line.starts_with('|'));
        let modules = |row: &str| {
            let cell = row.trim_matches('|').split('|').next().unwrap_or_default();
            cell.split(',').map(|module| module.trim().to_owned()).collect::<Vec<_>>()
        };
        tables.insert(name.to_owned(), rows.map(modules).collect());
    }
    tables
}

/// The files of a crate with the paths of their modules, those of tests left out.
fn files(src: &Path) -> Vec<(Vec<String>, String)> {
    let (mut files, mut folders) = (Vec::new(), vec![(Vec::new(), src.to_owned())]);
    while let Some((module, folder)) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if name == "tests" || name.ends_with("_tests") {
                continue;
            }
            let mut module: Vec<String> = module.clone();
            if !matches!(name.as_str(), "mod" | "lib" | "main") {
                module.push(name);
            }
            if path.is_dir() {
                folders.push((module, path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push((module, std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    files
}

/// Identifiers, `::` and single punctuation characters, without comments and literals.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut i) = (Vec::new(), 0);
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    while i < chars.len() {
        let c = chars[i];
        if c == '/' && at(i + 1) == '/' {
            while i < chars.len() && chars[i] != '\n' {
                i += 1;
            }
        } else if c == '/' && at(i + 1) == '*' {
            while i < chars.len() && !(chars[i] == '*' && at(i + 1) == '/') {
                i += 1;
            }
            i += 2;
        } else if c == 'r' && matches!((at(i + 1), at(i + 2)), ('"', _) | ('#', '"' | '#')) {
            let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
            let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            i += 2 + hashes;
            while i < chars.len() && !chars[i..].starts_with(&end) {
                i += 1;
            }
            i += end.len();
        } else if c == '"' {
            i += 1;
            while i < chars.len() && chars[i] != '"' {
                i += if chars[i] == '\\' { 2 } else { 1 };
            }
            i += 1;
        } else if c == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            // A character; else a lifetime.
            i += if at(i + 1) == '\\' { 3 } else { 2 };
            while i < chars.len() && chars[i] != '\'' {
                i += 1;
            }
            i += 1;
        } else if c.is_alphanumeric() || c == '_' {
            let start = i;
            while at(i).is_alphanumeric() || at(i) == '_' {
                i += 1;
            }
            tokens.push(chars[start..i].iter().collect());
        } else if c == ':' && at(i + 1) == ':' {
            tokens.push("::".to_owned());
            i += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            i += 1;
        }
    }
    tokens
}

/// The tokens without what is compiled in tests only.
fn without_tests(tokens: &[String]) -> Vec<String> {
    const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut i) = (Vec::new(), 0);
    while i < tokens.len() {
        if !tokens[i..].iter().map(String::as_str).take(CFG_TEST.len()).eq(CFG_TEST) {
            kept.push(tokens[i].clone());
            i += 1;
            continue;
        }
        // The item ends with its first braces, with a semicolon before them, or with what contains
        // it.
        i += CFG_TEST.len();
        let mut depth = 0_usize;
        while i < tokens.len() {
            match tokens[i].as_str() {
                "{" => depth += 1,
                // The end of what contains the item: a field or a variant without a brace.
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                _ => {}
            }
            i += 1;
            if depth == 0 && matches!(tokens[i - 1].as_str(), "}" | ";") {
                break;
            }
        }
    }
    kept
}

/// Adds the paths that begin with `prefix` and go on at `i`, with braces expanded, each with the
/// name that it is imported under.
fn expand(tokens: &[String], i: &mut usize, prefix: &[String], out: &mut Vec<(Vec<String>, String)>) {
    let mut path = prefix.to_vec();
    loop {
        let Some(token) = tokens.get(*i) else { return };
        *i += 1;
        if token == "{" {
            while tokens.get(*i).is_some_and(|token| token != "}") {
                expand(tokens, i, &path, out);
                if tokens.get(*i).is_some_and(|token| token == ",") {
                    *i += 1;
                }
            }
            *i += 1;
            return;
        }
        path.push(token.clone());
        if tokens.get(*i).is_some_and(|token| token == "::") {
            *i += 1;
            continue;
        }
        let mut name = token.clone();
        if tokens.get(*i).is_some_and(|token| token == "as") {
            name = tokens.get(*i + 1).cloned().unwrap_or_default();
            *i += 2;
        }
        out.push((path, name));
        return;
    }
}

/// All paths in `tokens` that begin with one of `roots`, with the names they are imported under.
fn paths(tokens: &[String], roots: &[&str]) -> Vec<(Vec<String>, String)> {
    let (mut found, mut i) = (Vec::new(), 0);
    while i + 1 < tokens.len() {
        let begins = roots.contains(&tokens[i].as_str()) && tokens[i + 1] == "::";
        if begins && (i == 0 || tokens[i - 1] != "::") {
            expand(tokens, &mut i, &[], &mut found);
        } else {
            i += 1;
        }
    }
    found
}

/// The top module that `path`, found in `module`, leads to; `exports` are the names in the root.
fn target(path: &[String], module: &[String], exports: &BTreeMap<String, String>) -> Option<String> {
    let mut absolute: Vec<String> = if path[0] == "crate" { Vec::new() } else { module.to_vec() };
    for segment in path {
        match segment.as_str() {
            "crate" | "self" => {}
            "super" => drop(absolute.pop()),
            _ => absolute.push(segment.clone()),
        }
    }
    let first = absolute.first()?;
    Some(exports.get(first).unwrap_or(first).clone())
}

/// An import: the importing module, its path as written, and the top module that it leads to.
struct Import<'a> {
    from: &'a [String],
    path: Vec<String>,
    to: String,
}

/// All paths of `files` that lead to one of `modules`, the top modules.
fn imports<'a>(modules: &[&str], files: &'a [(Vec<String>, String)]) -> Vec<Import<'a>> {
    let root = files.iter().find(|(module, _)| module.is_empty()).map_or("", |(_, text)| text);
    let exports = paths(&tokens(root), modules).into_iter().map(|(path, name)| (name, path[0].clone()));
    let exports: BTreeMap<String, String> =
        exports.filter(|(name, _)| !modules.contains(&name.as_str())).collect();
    let mut found = Vec::new();
    for (from, text) in files.iter().filter(|(module, _)| !module.is_empty()) {
        for (path, _) in paths(&without_tests(&tokens(text)), &["crate", "self", "super"]) {
            if let Some(to) = target(&path, from, &exports).filter(|to| modules.contains(&to.as_str())) {
                found.push(Import { from, path, to });
            }
        }
    }
    found
}

/// The arrows from lower to higher layers, and the modules that no layer has.
fn violations(layers: &Layers, files: &[(Vec<String>, String)]) -> Vec<String> {
    let layer_of = |module: &str| layers.iter().position(|layer| layer.iter().any(|m| m == module));
    let tops: BTreeSet<&String> = files.iter().filter_map(|(module, _)| module.first()).collect();
    let unknown = tops.into_iter().filter(|top| layer_of(top).is_none());
    let mut found: Vec<String> = unknown.map(|top| format!("{top} is in no layer")).collect();
    let modules: Vec<&str> = layers.iter().flatten().map(String::as_str).collect();
    for Import { from, path, to } in imports(&modules, files) {
        if layer_of(&from[0]).is_some_and(|from| layer_of(&to).is_some_and(|to| to < from)) {
            found.push(format!("{} imports {}", from.join("::"), path.join("::")));
        }
    }
    found
}

/// The top modules that import each other, directly or through others; in each circle sorted.
fn circles(files: &[(Vec<String>, String)]) -> BTreeSet<Vec<String>> {
    let tops: BTreeSet<&str> =
        files.iter().filter_map(|(module, _)| module.first()).map(String::as_str).collect();
    let tops: Vec<&str> = tops.into_iter().collect();
    let mut reached: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for Import { from, to, .. } in
        imports(&tops, files).into_iter().filter(|import| import.to != import.from[0])
    {
        reached.entry(&from[0]).or_default().insert(to);
    }
    // Warshall: paths through each module in turn.
    for through in &tops {
        let beyond = reached.get(through).cloned().unwrap_or_default();
        for modules in reached.values_mut().filter(|modules| modules.contains(*through)) {
            modules.extend(beyond.iter().cloned());
        }
    }
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|modules| modules.contains(to));
    let circle = |module: &&str| -> Vec<String> {
        let others = tops.iter().filter(|other| reaches(module, other) && reaches(other, module));
        others.map(|other| (*other).to_owned()).collect()
    };
    tops.iter().filter(|module| reaches(module, module)).map(circle).collect()
}

#[test]
fn modules_import_only_from_their_own_and_lower_layers() {
    let tables = tables();
    for name in ["cli", "cql", "database", "engine", "lab", "protocol", "server", "tools", "transactions"] {
        assert!(tables.contains_key(name), "{name} has no table: {tables:?}");
    }
    for (name, layers) in tables {
        let found = violations(&layers, &files(&root().join("crates").join(&name).join("src")));
        assert!(found.is_empty(), "crates/{name}, against ARCHITECTURE.md:\n{}", found.join("\n"));
    }
}

#[test]
fn top_modules_import_each_other_in_no_circle() {
    for name in crates() {
        let found = circles(&files(&root().join("crates").join(&name).join("src")));
        assert!(found.is_empty(), "crates/{name}: {found:?}");
    }
}

#[test]
fn a_circle_is_found_through_other_modules() {
    let file = |module: &str, text: &str| (vec![module.to_owned()], text.to_owned());
    let mut files = vec![
        file("a", "use crate::b::x;"),
        file("b", "fn f() { super::c::g() }"),
        file("c", "use crate::{a::y, d::z};"),
        file("d", "use crate::d::inner; #[cfg(test)] use crate::a::y;"),
    ];
    assert_eq!(circles(&files), [vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]].into());
    files.remove(1);
    assert_eq!(circles(&files), BTreeSet::new());
}

#[test]
fn an_import_of_a_higher_layer_is_found_in_every_form() {
    let layers = vec![vec!["top".to_owned()], vec!["low".to_owned()]];
    let file = |module: &str, text: &str| {
        let module = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        (module, text.to_owned())
    };
    let root = file("", "mod low; mod top; pub use top::{inner::Thing as Exported, Other};");
    let up = [
        "use crate::top::Other;",
        "use crate::{low::a, top::{self, b::{c, d}}};",
        "use super::super::top::Other;",
        "fn f() -> crate::top::Other { crate::low::g() }",
        "use crate::Exported;",
        "macro_rules! m { () => { $crate::top::x() } }",
        "fn f<'a>(c: char) { if c == '\"' { crate::top::g() } }",
        "struct S { #[cfg(test)] a: u8, } fn f() { crate::top::g() }",
    ];
    for text in up {
        let files = [root.clone(), file("low::inner", text)];
        assert!(!violations(&layers, &files).is_empty(), "{text}");
    }
    let allowed = [
        "use crate::low::Other; use super::x; use std::top::y;",
        "// crate::top::x\n/* crate::top::y */ const S: &str = \"crate::top::z\";",
        "#[cfg(test)] mod checks { use crate::top::Other; } use super::a;",
        "#[cfg(test)]\nuse crate::top::Other;\nfn f() {}",
        "struct S { a: u8, #[cfg(test)] b: crate::top::Other }",
    ];
    for text in allowed {
        let files = [root.clone(), file("low::inner", text)];
        assert_eq!(violations(&layers, &files), [""; 0], "{text}");
    }
    assert_eq!(violations(&layers, &[file("new", "")]), ["new is in no layer"]);
}
