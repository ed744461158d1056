//! SHOW: versions, host, traces and replicas.

use uuid::Uuid;

use crate::error::{Result, command};
use crate::shell::Shell;
use crate::values::Color;
use crate::words::Words;

impl Shell {
    pub(super) fn show(&mut self, words: &mut Words<'_>) -> Result<()> {
        let what = words.skip().to_uppercase();
        match what.as_str() {
            "VERSION" => {
                words.end("SHOW")?;
                self.show_version()
            }
            "HOST" => {
                words.end("SHOW")?;
                self.show_host()
            }
            "SESSION" => {
                let id =
                    Uuid::parse_str(words.peek()).map_err(|_| words.improper("SHOW SESSION", "a UUID"))?;
                words.skip();
                words.end("SHOW")?;
                self.print_trace(id, true)
            }
            "REPLICAS" => {
                let token = words.peek().parse().map_err(|_| words.improper("SHOW REPLICAS", "a token"))?;
                words.skip();
                let keyspace = words.name();
                words.end("SHOW")?;
                self.show_replicas(token, keyspace)
            }
            _ => Err(command(format!(
                "Improper SHOW command: expected VERSION, HOST, SESSION or REPLICAS, found '{what}'; HELP SHOW \
                 describes it."
            ))),
        }
    }

    /// Prints the versions of shell, server, language and protocol.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn show_version(&mut self) -> Result<()> {
        let local = self.session.query("SELECT release_version, cql_version FROM system.local")?;
        self.out.say(&format!(
            "[cassette cql {} | Cassandra {} | CQL spec {} | Native protocol v{}]\n",
            env!("CARGO_PKG_VERSION"),
            local.text(0, "release_version"),
            local.text(0, "cql_version"),
            self.session.version().number(),
        ));
        Ok(())
    }

    /// Prints where the shell is connected to.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn show_host(&mut self) -> Result<()> {
        let local = self.session.query("SELECT cluster_name FROM system.local")?;
        let name = Color::Blue.paint(&local.text(0, "cluster_name"), self.out.colored());
        let place = self.session.endpoint().place();
        self.out.say(&format!("Connected to {name} at {place}\n"));
        Ok(())
    }
}
