//! Metrics of Cassette from its Prometheus endpoint.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cassette_tls::ClientTls;
use cassette_tls::rustls::pki_types::ServerName;
use cassette_tls::rustls::{ClientConnection, StreamOwned};
use cassette_tls::secret::Token;
use serde::Deserialize;

use crate::LabError;
use crate::run::Counters;

/// Timeout of a response.
const ANSWER_MAX: Duration = Duration::from_millis(900);
/// Maximum length of a response.
const ANSWER_LENGTH_MAX: u64 = 16 << 20;

/// Address of the metrics, and how to access it.
#[derive(Clone)]
pub struct MetricsEndpoint {
    /// `host:port`.
    address: String,
    /// Value of the `Authorization` header.
    authorization: Option<String>,
    tls: Option<ClientTls>,
}

impl fmt::Debug for MetricsEndpoint {
    /// Leaves out the authorization, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsEndpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

impl MetricsEndpoint {
    /// Creates an endpoint at `address`: `host:port`, or an `http://` or `https://` URL with or
    /// without a path.
    pub fn new(address: &str) -> Self {
        let plain = |scheme| address.strip_prefix(scheme);
        let address = plain("http://").or_else(|| plain("https://")).unwrap_or(address);
        let address = address.split('/').next().unwrap_or_default().to_owned();
        Self { address, authorization: None, tls: None }
    }

    /// Presents the token in a file, or else the user and password of a role, if there are any.
    ///
    /// # Errors
    /// If the file is unreadable, or other users can read it.
    pub fn with_access(
        mut self,
        token_file: Option<&Path>,
        credentials: Option<(String, String)>,
    ) -> Result<Self, LabError> {
        self.authorization = match (token_file, credentials) {
            (Some(path), _) => {
                Some(Token::read(path).map_err(|error| LabError::Usage(error.to_string()))?.header())
            }
            (None, Some((user, password))) => {
                Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
            }
            (None, None) => None,
        };
        Ok(self)
    }

    /// Encrypts connections.
    #[must_use]
    pub fn with_tls(mut self, tls: ClientTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Returns the current metrics; empty if the endpoint does not respond in time.
    pub fn sample(&self) -> Counters {
        let mut found = self.fetch("/metrics").map(|text| counters(&text)).unwrap_or_default();
        if let Some(unleveled) = self.fetch("/v1/tables").ok().and_then(|text| unleveled(&text)) {
            found.insert("sstables_unleveled".into(), unleveled);
        }
        found
    }

    fn fetch(&self, path: &str) -> io::Result<String> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        let text = match &self.tls {
            None => self.exchange(path, stream)?,
            Some(tls) => {
                let host = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
                let session = ClientConnection::new(tls.config().clone(), name.map_err(io::Error::other)?);
                self.exchange(path, StreamOwned::new(session.map_err(io::Error::other)?, stream))?
            }
        };
        match text.split_once("\r\n\r\n") {
            Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
            _ => Err(io::Error::other("malformed metrics response")),
        }
    }

    /// Sends a request and returns the response with its head.
    fn exchange(&self, path: &str, mut stream: impl Read + Write) -> io::Result<String> {
        let authorization = self.authorization.as_ref();
        let authorization = authorization.map(|value| format!("Authorization: {value}\r\n"));
        // HTTP 1.0: the end of the connection ends the response. The request is sent in one piece:
        // `write!` to the stream would send each of its parts separately.
        let request = format!(
            "GET {path} HTTP/1.0\r\nHost: {}\r\n{}\r\n",
            self.address,
            authorization.unwrap_or_default()
        );
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.take(ANSWER_LENGTH_MAX).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// The used part of a table in `/v1/tables`.
#[derive(Debug, Deserialize)]
struct TableLevels {
    keyspace: String,
    levels: Vec<Level>,
}

#[derive(Debug, Deserialize)]
struct Level {
    sstables: u64,
}

/// Returns the number of SSTables on level 0 of user tables, without those of tables without
/// levels.
fn unleveled(text: &str) -> Option<f64> {
    let tables: Vec<TableLevels> = serde_json::from_str(text).ok()?;
    let of_users = tables.iter().filter(|table| !is_system(&table.keyspace));
    Some(of_users.filter_map(|table| table.levels.first()).map(|level| level.sstables as f64).sum())
}

fn is_system(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}

/// Metrics of tables, with the names that other engines share; system keyspaces are excluded.
const TABLE_METRICS: [(&str, &str); 10] = [
    ("cassette_table_sstables", "sstables"),
    ("cassette_table_live_bytes", "disk_bytes"),
    ("cassette_table_flushes_total", "flushes_total"),
    ("cassette_table_flushed_bytes_total", "flushed_bytes_total"),
    ("cassette_table_compactions_total", "compactions_total"),
    ("cassette_table_compacted_bytes_total", "compacted_bytes_total"),
    ("cassette_table_pending_compactions", "compactions_pending"),
    ("cassette_table_filter_false_positives_total", "bloom_filter_false_positives_total"),
    ("cassette_table_filter_true_positives_total", "bloom_filter_true_positives_total"),
    ("cassette_table_filter_true_negatives_total", "bloom_filter_true_negatives_total"),
];

/// Sums and counts of histograms.
const SUMMARY_METRICS: [(&str, &str); 2] = [
    ("cassette_table_sstables_per_read_sum", "sstables_read_total"),
    ("cassette_table_sstables_per_read_count", "table_reads_total"),
];

/// Parses text format 0.0.4: `name{label="value",…} number`.
fn counters(text: &str) -> Counters {
    let mut counters = Counters::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Some(value) = value.parse::<f64>().ok().filter(|value| value.is_finite()) else { continue };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let label = |label: &str| labels.split(&format!("{label}=\"")).nth(1)?.split('"').next();
        let known = TABLE_METRICS.iter().chain(&SUMMARY_METRICS).find(|(known, _)| *known == name);
        let name = match (name, label("keyspace"), label("cache")) {
            ("cassette_memtable_bytes", ..) => "memtable_bytes".to_owned(),
            ("cassette_commit_log_bytes", ..) => "commit_log_bytes".to_owned(),
            ("cassette_writes_stalled_total", ..) => "writes_stalled_total".to_owned(),
            (_, Some(keyspace), _) if keyspace != "system" && !keyspace.starts_with("system_") => match known
            {
                Some((_, ours)) => (*ours).to_owned(),
                None => continue,
            },
            (name, _, Some(cache)) if name.starts_with("cassette_cache_") && !name.contains("capacity") => {
                let metric = name.trim_start_matches("cassette_cache_").replace("size_bytes", "bytes");
                format!("{cache}_cache_{metric}")
            }
            _ => continue,
        };
        *counters.entry(name).or_insert(0.0) += value;
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP cassette_memtable_bytes Heap bytes of memtables.\n\
        # TYPE cassette_memtable_bytes gauge\n\
        cassette_memtable_bytes 4096\n\
        cassette_cache_hits_total{cache=\"chunk\"} 7\n\
        cassette_cache_size_bytes{cache=\"row\"} 9\n\
        cassette_cache_capacity_bytes{cache=\"row\"} 99\n\
        cassette_table_sstables{keyspace=\"lab\",table=\"a\"} 3\n\
        cassette_table_sstables{keyspace=\"lab\",table=\"b\"} 2\n\
        cassette_table_sstables{keyspace=\"system_schema\",table=\"tables\"} 5\n\
        cassette_table_sstables_per_read_sum{keyspace=\"lab\",table=\"a\"} 12\n\
        cassette_table_droppable_ratio{keyspace=\"lab\",table=\"a\"} NaN\n";

    const TABLES: &str = r#"[
        {"keyspace": "lab", "table": "a", "levels": [{"sstables": 4, "bytes": 1}, {"sstables": 9, "bytes": 1}]},
        {"keyspace": "lab", "table": "b", "levels": []},
        {"keyspace": "system", "table": "c", "levels": [{"sstables": 7, "bytes": 1}]}
    ]"#;

    #[test]
    fn metrics_are_summed_over_user_tables_under_shared_names() {
        let expected = [
            ("chunk_cache_hits_total", 7.0),
            ("memtable_bytes", 4096.0),
            ("row_cache_bytes", 9.0),
            ("sstables", 5.0),
            ("sstables_read_total", 12.0),
        ];
        assert_eq!(counters(TEXT), expected.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn metrics_are_read_and_a_failing_endpoint_yields_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = std::thread::spawn(move || {
            for status in ["200 OK", "200 OK", "403 Forbidden", "403 Forbidden"] {
                let (mut stream, _) = listener.accept().unwrap();
                // Completely: closing a connection with unread bytes resets it and loses the
                // response.
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.extend(byte);
                }
                let text = String::from_utf8_lossy(&head).into_owned();
                assert!(text.contains("\r\nAuthorization: Basic bWU6c2VjcmV0\r\n"), "{text}");
                let statistics = head.starts_with(b"GET /metrics ");
                let body = if statistics { TEXT } else { TABLES };
                write!(stream, "HTTP/1.0 {status}\r\ncontent-type: text/plain\r\n\r\n{body}").unwrap();
            }
        });
        let endpoint = MetricsEndpoint::new(&format!("http://{address}/metrics"));
        let endpoint = endpoint.with_access(None, Some(("me".into(), "secret".into()))).unwrap();
        assert!(!format!("{endpoint:?}").contains("bWU6"), "{endpoint:?}");
        let found = endpoint.sample();
        assert_eq!((found["sstables"], found["sstables_unleveled"]), (5.0, 4.0));
        assert!(endpoint.sample().is_empty());
        answer.join().unwrap();
        assert!(endpoint.sample().is_empty(), "no process listens any more");
    }
}
