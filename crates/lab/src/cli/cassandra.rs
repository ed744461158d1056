//! `lab cassandra start | stop | status`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::LabError;
use crate::cassandra::{Cluster, ClusterSettings, running, stop_processes};
use crate::results::ProcessUse;

/// `cassette lab cassandra …`
#[derive(Debug, Clone, Subcommand)]
pub enum CassandraCommand {
    /// Start a new cluster on loopback addresses; removes the files of a previous one
    Start(StartArgs),
    /// Stop the cluster in order
    Stop(DirectoryArgs),
    /// Show the running nodes and their resource usage
    Status(DirectoryArgs),
}

/// Arguments of `start`.
#[derive(Debug, Clone, Args)]
pub struct StartArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: usize,

    /// Heap of each node
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub heap: String,

    /// Version of Cassandra, as on Maven Central
    #[arg(long, value_name = "VERSION", default_value = "5.0.8")]
    pub version: String,

    /// Port on which nodes listen for CQL
    #[arg(long, value_name = "PORT", default_value_t = 9042)]
    pub port: u16,

    /// Network of the nodes' addresses: three numbers; the fourth is the number of the node
    #[arg(long, value_name = "A.B.C", default_value = "127.0.77", value_parser = parse_network)]
    pub network: [u8; 3],

    /// Set a line of cassandra.yaml, e.g. --set row_cache_size=64MiB
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub yaml: Vec<(String, String)>,

    #[command(flatten)]
    pub directory: DirectoryArgs,
}

/// Location of a cluster.
#[derive(Debug, Clone, Args)]
pub struct DirectoryArgs {
    /// Directory with the files of the nodes
    #[arg(long, value_name = "DIR", default_value = ".cache/cassandra/cluster")]
    pub directory: PathBuf,
}

fn parse_network(text: &str) -> Result<[u8; 3], String> {
    let numbers: Result<Vec<u8>, _> = text.split('.').map(str::parse).collect();
    let wrong = || format!("invalid network {text:?}: expected three numbers such as 127.0.77");
    match numbers.map(<[u8; 3]>::try_from) {
        Ok(Ok(network)) if network[0] == 127 => Ok(network),
        _ => Err(wrong()),
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("invalid setting {text:?}: expected NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

impl CassandraCommand {
    /// Runs the command.
    pub fn run(&self) -> Result<bool, LabError> {
        match self {
            Self::Start(args) => {
                if let Some((number, pid)) = running(&args.directory.directory).first() {
                    return Err(LabError::Usage(format!(
                        "node {number} in {} is already running as process {pid}: stop it first",
                        args.directory.directory.display()
                    )));
                }
                let settings = ClusterSettings {
                    version: args.version.clone(),
                    nodes: args.nodes,
                    heap: args.heap.clone(),
                    directory: args.directory.directory.clone(),
                    network: args.network,
                    port: args.port,
                    yaml: args.yaml.iter().cloned().collect(),
                    ..ClusterSettings::default()
                };
                let contacts = settings.contacts().join(",");
                let cluster = Cluster::start(settings)?;
                let pids: Vec<String> = cluster.pids().iter().map(u32::to_string).collect();
                println!("listening on {contacts}, as processes {}", pids.join(", "));
                println!("measure it with: cassette lab ycsb --engine cql --contact {contacts}");
            }
            Self::Stop(args) => {
                let nodes = running(&args.directory);
                let pids: Vec<u32> = nodes.iter().map(|(_, pid)| *pid).collect();
                stop_processes(&pids);
                println!("{} nodes stopped", pids.len());
            }
            Self::Status(args) => {
                let nodes = running(&args.directory);
                if nodes.is_empty() {
                    println!("no node is running in {}", args.directory.display());
                }
                for (number, pid) in nodes {
                    let used = ProcessUse::of(pid)?;
                    println!(
                        "node {number}: process {pid}, {:.0} s of processor time, {} MiB resident, {} threads",
                        used.cpu_seconds(),
                        used.rss_bytes >> 20,
                        used.threads
                    );
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_must_be_loopback() {
        assert_eq!(parse_network("127.0.5"), Ok([127, 0, 5]));
        for wrong in ["10.0.0", "127.0", "127.0.0.1", "127.0.x", "127.0.256"] {
            assert!(parse_network(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(parse_pair("a").is_err());
    }
}
