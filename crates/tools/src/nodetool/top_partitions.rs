//! `toppartitions`, also called `profileload`.

use cassette_admin_api::TopPartitions;

use super::arguments::Invocation;
use super::client::Client;
use super::text::Table;
use super::{Failure, Format, Output, Result};

/// The samplers: Cassandra's name, its title, and the title of what it counts.
const SAMPLERS: [(&str, &str, &str); 8] = [
    ("READS", "Frequency of reads by partition", "Count"),
    ("WRITES", "Frequency of writes by partition", "Count"),
    ("LOCAL_READ_TIME", "Longest read query times", "Microseconds"),
    ("READ_ROW_COUNT", "Partitions read with the most rows", "Rows"),
    ("READ_TOMBSTONE_COUNT", "Partitions read with the most tombstones", "Tombstones"),
    ("READ_SSTABLE_COUNT", "Partitions read with the most sstables", "SSTables"),
    ("WRITE_SIZE", "Max mutation size by partition", "Bytes"),
    ("CAS_CONTENTIONS", "Frequency of CAS contention by partition", "Count"),
];

/// Samples for an interval and prints the most active partitions.
pub(super) fn sample(invocation: &Invocation, format: Format, client: &Client) -> Result<Output> {
    for option in ["--interval", "--stop", "--list"] {
        if invocation.has(option) {
            return Err(Failure::Error("Cassette does not support scheduled samplings yet".to_owned()));
        }
    }
    let wanted = |text: &String| (text != "*").then(|| text.clone());
    let (keyspace, table, duration) = match &invocation.arguments[..] {
        [] => (None, None, None),
        [duration] => (None, None, Some(duration)),
        [keyspace, table] => (wanted(keyspace), wanted(table), None),
        [keyspace, table, duration] => (wanted(keyspace), wanted(table), Some(duration)),
        _ => {
            return Err(Failure::usage(
                "Invalid arguments, either [keyspace table/* duration] or [keyspace table/*] or [duration] \
                 or no args.\nOptionally, use * to represent all tables under the keyspace.",
            ));
        }
    };
    let millis = match duration {
        None => 10_000,
        Some(text) => match text.parse::<u64>() {
            Ok(millis) if millis > 0 => millis,
            _ => return Err(Failure::usage(format!("Duration: {text} must be positive"))),
        },
    };
    let (capacity, top) = (invocation.number("-s", 256usize)?, invocation.number("-k", 10usize)?);
    if top == 0 {
        return Err(Failure::usage("TopK count (-k) option must have positive value"));
    }
    if top >= capacity {
        return Err(Failure::usage("TopK count (-k) option must be smaller then the summary capacity (-s)"));
    }
    if capacity > 1024 {
        return Err(Failure::usage("Capacity (-s) cannot exceed 1024."));
    }
    let asked: Vec<String> = match invocation.option("-a") {
        Some(names) => names.split(',').map(|name| name.trim().to_uppercase()).collect(),
        None => SAMPLERS.iter().map(|(name, ..)| (*name).to_owned()).collect(),
    };
    if let Some(unknown) = asked.iter().find(|name| !SAMPLERS.iter().any(|(known, ..)| known == *name)) {
        let known: Vec<_> = SAMPLERS.iter().map(|(name, ..)| *name).collect();
        let message = format!("'{unknown}' sampler is not available from: [{}]", known.join(", "));
        return Err(Failure::usage(message));
    }
    let mut path = format!("/v1/top_partitions?millis={millis}&capacity={capacity}&top={top}");
    for (name, value) in [("keyspace", &keyspace), ("table", &table)] {
        if let Some(value) = value {
            path += &format!("&{name}={value}");
        }
    }
    let found: TopPartitions = client.get(&path)?;
    match format {
        Format::Text => Ok(Output::Text(text(&found, &asked))),
        Format::Json | Format::Yaml => {
            let data = serde_json::to_value(&found).map_err(|error| Failure::Error(error.to_string()))?;
            Ok(Output::Data(data))
        }
    }
}

/// Formats the results of each sampler.
pub(super) fn text(found: &TopPartitions, asked: &[String]) -> String {
    let mut text = String::new();
    for (name, title, unit) in SAMPLERS.iter().filter(|(name, ..)| asked.iter().any(|asked| asked == name)) {
        text += &format!("{title}:\n");
        let samples = found.samplers.get(*name).map_or(&[][..], Vec::as_slice);
        if samples.is_empty() {
            text += "   Nothing recorded during sampling period...\n\n";
            continue;
        }
        let has_error = *unit == "Count";
        let mut table = Table::default();
        if *name == "LOCAL_READ_TIME" {
            table.row(["  ", "Query", unit]);
        } else {
            table.row(["  ", "Table", "Partition", unit].into_iter().chain(has_error.then_some("+/-")));
        }
        for sample in samples {
            let count = sample.count.to_string();
            if *name == "LOCAL_READ_TIME" {
                table.row(["  ", &sample.partition, &count]);
            } else {
                let error = sample.error.to_string();
                let cells = ["  ", &sample.table, &sample.partition, &count];
                table.row(cells.into_iter().chain(has_error.then_some(&*error)));
            }
        }
        text += &(table.text(" ") + "\n");
    }
    text
}
