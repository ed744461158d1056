//! `tablehistograms` and `proxyhistograms`.

use cassette_admin_api::{DistributionReport, NodeReport, TableReport};

use super::{Failure, Result};

const ROWS: [&str; 7] = ["50%", "75%", "95%", "98%", "99%", "Min", "Max"];

fn percentiles(values: &DistributionReport) -> [f64; 7] {
    let DistributionReport { p50, p75, p95, p98, p99, min, max, .. } = *values;
    [p50, p75, p95, p98, p99, min, max].map(|value| value as f64)
}

/// Selects the tables of the arguments; all without arguments.
pub(super) fn select(all: Vec<TableReport>, arguments: &[String]) -> Result<Vec<TableReport>> {
    let (keyspace, table) = match arguments {
        [] => return Ok(all),
        [keyspace, table] if !keyspace.contains('.') && !table.contains('.') => (&**keyspace, &**table),
        [name] => match name.split('.').collect::<Vec<_>>()[..] {
            [keyspace, table] => (keyspace, table),
            _ => return Err(Failure::usage("tablehistograms requires keyspace and table name arguments")),
        },
        _ => {
            return Err(Failure::usage(
                "tablehistograms requires <keyspace> <table> or <keyspace.table> format argument.",
            ));
        }
    };
    let found: Vec<_> =
        all.into_iter().filter(|report| report.keyspace == keyspace && report.table == table).collect();
    if found.is_empty() {
        Err(Failure::usage(format!("Unknown table {keyspace}.{table}")))
    } else {
        Ok(found)
    }
}

/// The histograms of tables.
pub(super) fn tables(tables: &[TableReport]) -> String {
    tables.iter().map(table).collect()
}

fn table(table: &TableReport) -> String {
    let mut text = String::new();
    let (sizes, cells) = match (&table.partition_bytes, &table.partition_cells) {
        (Some(sizes), Some(cells)) => (percentiles(sizes), percentiles(cells)),
        _ => {
            text += "No SSTables exists, unable to calculate 'Partition Size' and 'Cell Count' percentiles\n";
            ([f64::NAN; 7], [f64::NAN; 7])
        }
    };
    text += &format!("{}/{} histograms\n", table.keyspace, table.table);
    let row = |cells: [&str; 6]| {
        let [first, rest @ ..] = cells;
        format!("{first:<10}") + &rest.map(|cell| format!("{cell:>18}")).concat() + "\n"
    };
    text += &row(["Percentile", "Read Latency", "Write Latency", "SSTables", "Partition Size", "Cell Count"]);
    text += &row(["", "(micros)", "(micros)", "", "(bytes)", ""]);
    let columns = [&table.read, &table.write, &table.sstables_per_read].map(percentiles);
    for (i, name) in ROWS.iter().enumerate() {
        text += &format!("{name:<10}");
        columns.iter().for_each(|column| text += &format!("{:>18.2}", column[i]));
        [sizes, cells].iter().for_each(|column| text += &format!("{:>18.0}", column[i]));
        text.push('\n');
    }
    text + "\n"
}

/// The histograms of requests.
pub(super) fn requests(node: &NodeReport) -> String {
    let columns = ["Read", "Write", "RangeSlice", "CASRead", "CASWrite", "ViewWrite"].map(|name| {
        let none = DistributionReport::default();
        percentiles(node.requests.get(name).map_or(&none, |request| &request.latency))
    });
    let row = |first: &str, cells: [&str; 6]| {
        format!("{first:<10}") + &cells.map(|cell| format!("{cell:>19}")).concat() + "\n"
    };
    let labels = [
        "Read Latency",
        "Write Latency",
        "Range Latency",
        "CAS Read Latency",
        "CAS Write Latency",
        "View Write Latency",
    ];
    let mut text = "proxy histograms\n".to_owned();
    text += &row("Percentile", labels);
    text += &row("", ["(micros)"; 6]);
    for (i, name) in ROWS.iter().enumerate() {
        text += &format!("{name:<10}");
        columns.iter().for_each(|column| text += &format!("{:>19.2}", column[i]));
        text.push('\n');
    }
    text + "\n"
}
