//! DESCRIBE: a statement of the server, whose rows are printed as in cqlsh.

use cassette_protocol::{Consistency, Rows};

use crate::error::{Result, ShellError, command};
use crate::output::columnize;
use crate::session::RequestOptions;
use crate::shell::Shell;
use crate::words::Words;

impl Shell {
    pub(super) fn describe(&mut self, text: &str, words: &mut Words<'_>) -> Result<()> {
        let what = words.skip().to_lowercase();
        let options =
            || RequestOptions { consistency: Some(Consistency::LocalOne), ..RequestOptions::default() };
        let mut done = self.session.execute(text, options()).map_err(without_code)?;
        let mut rows = Vec::new();
        while let Some(page) = done.rows.take() {
            let paging_state = page.paging_state.clone();
            let names: Vec<String> =
                page.metadata.columns().iter().map(|column| column.name.to_string()).collect();
            rows.extend(described(&page, &names));
            let Some(paging_state) = paging_state else { break };
            let next = RequestOptions { paging_state: Some(paging_state), ..options() };
            done = self.session.execute(text, next).map_err(without_code)?;
        }
        match what.as_str() {
            "keyspaces" => {
                let names: Vec<String> = rows.iter().map(|row| row.get("name")).collect();
                self.out.say(&format!("\n{}\n", columnize(&names)));
            }
            "tables" | "columnfamilies" | "types" | "functions" | "aggregates" => self.describe_names(&rows),
            "cluster" => self.describe_cluster(&rows),
            _ => {
                for row in &rows {
                    self.out.say("\n");
                    self.out.result(&row.get("create_statement"));
                    self.out.say("\n");
                }
            }
        }
        Ok(())
    }

    /// Prints names grouped by keyspace.
    fn describe_names(&mut self, rows: &[Described]) {
        for group in rows.chunk_by(|a, b| a.get("keyspace_name") == b.get("keyspace_name")) {
            let keyspace = group.first().map(|row| row.get("keyspace_name")).unwrap_or_default();
            self.out.say("\n");
            if self.session.keyspace.is_none() {
                self.out.say(&format!(
                    "Keyspace {keyspace}\n---------{}\n",
                    "-".repeat(keyspace.chars().count())
                ));
            }
            let names: Vec<String> = group.iter().map(|row| row.get("name")).collect();
            self.out.say(&columnize(&names));
        }
        if !rows.is_empty() {
            self.out.say("\n");
        }
    }

    fn describe_cluster(&mut self, rows: &[Described]) {
        for row in rows {
            self.out.say(&format!(
                "\nCluster: {}\nPartitioner: {}\nSnitch: {}\n\n",
                row.get("cluster"),
                row.get("partitioner"),
                row.get("snitch")
            ));
            let Some(ranges) = &row.ranges else { continue };
            self.out.say("Range ownership:\n");
            for (token, nodes) in ranges {
                self.out.say(&format!(" {token:>39}  [{}]\n", nodes.join(", ")));
            }
            self.out.say("\n");
        }
    }
}

/// A row of DESCRIBE.
struct Described {
    cells: Vec<(String, String)>,
    /// The ranges of tokens with their nodes.
    ranges: Option<Vec<(String, Vec<String>)>>,
}

impl Described {
    fn get(&self, name: &str) -> String {
        self.cells.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone()).unwrap_or_default()
    }
}

fn described<'a>(page: &'a Rows, names: &'a [String]) -> impl Iterator<Item = Described> + 'a {
    use cassette_rows::types::collection::{read_list, read_map};
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    page.iter().map(move |row| {
        let (mut cells, mut ranges) = (Vec::new(), None);
        for (name, cell) in names.iter().zip(row) {
            let bytes = cell.unwrap_or_default();
            if name == "range_ownership" {
                let mut found: Vec<_> = read_map(bytes)
                    .map(|(token, nodes)| (text(token), read_list(nodes).flatten().map(text).collect()))
                    .collect();
                found.sort();
                ranges = Some(found);
            } else {
                cells.push((name.clone(), text(bytes)));
            }
        }
        Described { cells, ranges }
    })
}

/// Reduces an error of the server to its message, as cqlsh does for DESCRIBE.
fn without_code(error: ShellError) -> ShellError {
    match error {
        ShellError::Server(error) => command(error.message),
        other => other,
    }
}
