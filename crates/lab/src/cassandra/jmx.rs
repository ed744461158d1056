//! Metrics that Cassandra exposes only by JMX: garbage collections, SSTables by level, filters,
//! flushed and compacted bytes.
//!
//! JMX is a Java protocol, so a small Java program reads the metrics, once per line of its input.
//! It runs as long as the cluster, so that its startup (a second of processor time) precedes the
//! measurements. It also outlives a killed `cassette lab`, and then stops the nodes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::LabError;
use crate::run::Counters;

/// Source of the program.
const PROGRAM: &str = include_str!("Counters.java");
/// Timeout of a response: a node that collects garbage does not respond.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Timeout of the first response, because the program is compiled first.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(60);

/// The program and its pending output.
#[derive(Debug)]
pub(super) struct Jmx {
    child: Child,
    conversation: Mutex<Conversation>,
}

#[derive(Debug)]
struct Conversation {
    questions: Option<ChildStdin>,
    answers: Receiver<String>,
    /// Number of responses that took too long. They are skipped when they arrive.
    owed: usize,
}

impl Jmx {
    /// Starts the program for the nodes of the cluster in `directory`, with JMX at `ports`, and
    /// waits for its first response.
    pub fn start(directory: &Path, ports: &[u16]) -> Result<Self, LabError> {
        let source = directory.join("Counters.java");
        crate::files::write_atomically(&source, PROGRAM.as_bytes())?;
        let source = std::path::absolute(&source)
            .map_err(|error| LabError::io(format!("resolving {}", source.display()), error))?;
        let mut child = Command::new("java")
            .args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg(source)
            .arg(std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()))
            .args(ports.iter().map(u16::to_string))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| LabError::io("running java to read metrics by JMX", error))?;
        let (send, answers) = channel();
        let questions = child.stdin.take();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                let lines = BufReader::new(out).lines();
                lines.map_while(Result::ok).try_for_each(|line| send.send(line)).ok();
            });
        }
        let conversation = Conversation { questions, answers, owed: 0 };
        let started = Self { child, conversation: Mutex::new(conversation) };
        started.request(FIRST_ANSWER_MAX);
        Ok(started)
    }

    /// Returns the current metrics; empty if the nodes do not respond in time.
    pub fn sample(&self) -> Counters {
        self.request(ANSWER_MAX).map(|line| parse(&line)).unwrap_or_default()
    }

    fn request(&self, patience: Duration) -> Option<String> {
        let mut conversation = self.conversation.lock().ok()?;
        let Conversation { questions, answers, owed } = &mut *conversation;
        questions.as_mut()?.write_all(b"\n").ok()?;
        *owed += 1;
        loop {
            let line = answers.recv_timeout(patience).ok()?;
            *owed -= 1;
            if *owed == 0 {
                return Some(line);
            }
        }
    }
}

impl Drop for Jmx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses `name=value name=value …`, skipping what is not a number.
fn parse(line: &str) -> Counters {
    let pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
    let numbers = pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse::<f64>().ok()?)));
    numbers.filter(|(_, value)| value.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_end_with_a_killed_parent_and_other_processes_do_not() {
        let directory = tempfile::tempdir().unwrap();
        // The first one looks like a node; the second one reuses the pid of an ended node.
        let mut processes = ["org.apache.cassandra.service.CassandraDaemon", "another"].map(|name| {
            Command::new("tail")
                .args(["-f", "/dev/null", name])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        });
        for (number, process) in (1..).zip(&processes) {
            let node = directory.path().join(format!("node{number}"));
            std::fs::create_dir(&node).unwrap();
            std::fs::write(node.join("pid"), process.id().to_string()).unwrap();
        }
        match Jmx::start(directory.path(), &[]) {
            Ok(jmx) => {
                // As after the death of `cassette lab`: a pipe without a writer.
                jmx.conversation.lock().unwrap().questions = None;
                let [node, other] = &mut processes;
                let began = std::time::Instant::now();
                while node.try_wait().unwrap().is_none() {
                    assert!(began.elapsed() < Duration::from_secs(120), "the node continues");
                    std::thread::sleep(Duration::from_millis(10));
                }
                assert!(other.try_wait().unwrap().is_none());
            }
            // Without Java there are no nodes either.
            Err(error) => assert!(error.to_string().contains("running java"), "{error}"),
        }
        for mut process in processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    #[test]
    fn responses_are_parsed_without_non_numbers() {
        let counters = parse("gc_count_total=12.0 gc_seconds_total=0.125 x=NaN y= z disk_bytes=1.0E7 ");
        let expected = [("gc_count_total", 12.0), ("gc_seconds_total", 0.125), ("disk_bytes", 1e7)];
        assert_eq!(counters, expected.map(|(name, value)| (name.to_owned(), value)).into());
        assert!(parse("").is_empty());
    }
}
