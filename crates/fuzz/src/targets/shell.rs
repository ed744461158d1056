//! Input and files of the shell: statements and commands, files of COPY, cqlshrc, completions.
//!
//! ```text
//! u8 0: input, 1: rows of COPY, 2: cqlshrc, 3: a line to complete; modulo 4
//! the text; of rows, after the delimiter, the quote and the escape character
//! ```

use cassette_shell::fuzzed;

use super::split;
use crate::Target;

pub const TARGET: Target = Target {
    name: "shell",
    run,
    seeds,
    words: &[
        b";",
        b"\n",
        b"'",
        b"\"",
        b"''",
        b"$$",
        b"--",
        b"//",
        b"/*",
        b"*/",
        b"BEGIN",
        b"BATCH",
        b"APPLY",
        b"COPY ",
        b"DESCRIBE",
        b".import",
        b"?",
        b",",
        b"\\",
        b"\r\n",
        b"[",
        b"]",
        b"=",
        b":",
        b"#",
        b"\xc3\xa9",
        b"\xf0\x9f\x98\x80",
    ],
    inputs: 20_000,
};

fn run(input: &[u8]) {
    let (kind, bytes) = split(input);
    let text = String::from_utf8_lossy(bytes);
    match kind % 4 {
        0 => fuzzed::input(&text),
        1 => fuzzed::rows(bytes),
        2 => fuzzed::configuration(&text),
        _ => fuzzed::completion(&text),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let seeds: [(u8, &str); 12] = [
        (0, "SELECT * FROM ks.t WHERE k = 'it''s'; -- a comment\nDESCRIBE TABLES\nEXIT"),
        (0, "BEGIN BATCH INSERT INTO t (k) VALUES (1); DELETE FROM t WHERE k = 2; APPLY BATCH;"),
        (0, "CREATE FUNCTION f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$ return a; $$;"),
        (0, ".import rows.csv ks.t\nCOPY ks.t (k, \"V\") TO 'a.csv' WITH HEADER = true;\n? copy\n/* open"),
        (1, ",\"\\k,v\n1,\"a \\\"quoted\\\", b\"\r\n\n2,a\\,b\n"),
        (1, ";''1;'it''s';\n;;\n'several\nlines'\n"),
        (1, "\t\"\\1\t2\t3"),
        (2, "; comment\n[connection]\nhostname = localhost\nport: 9042\n[ui]\ncolor = on\n  continued\n"),
        (2, "[copy]\ndelimiter = ;\n[copy-from:ks.t]\nheader = true"),
        (3, "SELECT name FROM system"),
        (3, "CREATE TABLE \"Ks\".t (k int PRIMARY KEY) WITH "),
        (3, "INSERT INTO t (k) VALUES ('"),
    ];
    seeds.iter().map(|(kind, text)| [&[*kind][..], text.as_bytes()].concat()).collect()
}
