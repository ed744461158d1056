//! Options of servers for tests of applications.

use std::io;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, bail};
use cassette_database::{NodePlace, Options, Seed};
use clap::Args;
use jiff::Timestamp;
use tokio::net::TcpListener;

use crate::listening::cannot_listen;

/// The maximum number of virtual nodes.
const NODES_MAX: usize = 64;

/// How often a port is chosen that all virtual nodes have to listen on.
const PORT_ATTEMPTS: usize = 20;

/// Options that no server in production has.
#[derive(Debug, Args)]
pub struct TestingArguments {
    /// Let tests inject faults into requests, such as timeouts and dropped connections, by rows of
    /// system_testing.cassette_faults and at the admin endpoint; never in production
    #[arg(long, conflicts_with = "forward")]
    fault_injection: bool,

    /// Present virtual nodes over one store, for tests of drivers and their policies: a number, or
    /// places as DC[/RACK][=COUNT], separated by commas. They listen on the address of --listen and
    /// those after it, or on all addresses that --listen lists
    #[arg(long, value_name = "NODES", value_parser = parse_nodes, conflicts_with_all = ["read_only", "forward"])]
    nodes: Option<Nodes>,

    /// Make UUIDs and times the same in each run, for snapshot tests: uuid() follows from this
    /// number, and the clock of now(), write timestamps and TTLs advances by a millisecond for each
    /// write. With --in-memory or --temporary only
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["read_only", "forward"])]
    seed: Option<u64>,

    /// Where the clock of --seed starts [default: 2025-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME", requires = "seed")]
    clock_start: Option<Timestamp>,
}

/// The data centers and racks of virtual nodes; `None` for those of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Nodes(Vec<(Option<String>, Option<String>)>);

fn parse_nodes(text: &str) -> Result<Nodes, String> {
    const EXPECTED: &str = "expected a number, or places such as dc1=2,dc2/rack1";
    let count = |text: &str| match text.parse::<usize>() {
        Ok(count) if (1..=NODES_MAX).contains(&count) => Ok(count),
        Ok(_) => Err(format!("expected 1 to {NODES_MAX} nodes")),
        Err(_) => Err(EXPECTED.to_owned()),
    };
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Nodes(vec![(None, None); count(text)?]));
    }
    let mut nodes = Vec::new();
    for part in text.split(',') {
        let (place, number) = match part.split_once('=') {
            Some((place, number)) => (place, count(number)?),
            None => (part, 1),
        };
        let (data_center, rack) = match place.split_once('/') {
            Some((data_center, rack)) => (data_center, Some(rack)),
            None => (place, None),
        };
        if data_center.is_empty() || rack.is_some_and(str::is_empty) {
            return Err(EXPECTED.to_owned());
        }
        nodes.extend((0..number).map(|_| (Some(data_center.to_owned()), rack.map(str::to_owned))));
    }
    if nodes.len() > NODES_MAX {
        return Err(format!("expected 1 to {NODES_MAX} nodes"));
    }
    Ok(Nodes(nodes))
}

impl TestingArguments {
    /// Whether there are virtual nodes.
    pub fn has_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    /// Rejects several addresses of `--listen` without virtual nodes.
    pub fn check_listed(&self, listed: &[SocketAddr]) -> anyhow::Result<()> {
        if self.nodes.is_none() && listed.len() > 1 {
            bail!("--listen: expected one address, found {}; several are for --nodes", listed.len());
        }
        Ok(())
    }

    /// Rejects `--seed` with a data directory that is kept.
    pub fn check_seed(&self, keeps_data: bool) -> anyhow::Result<()> {
        if self.seed.is_some() && keeps_data {
            bail!(
                "--seed: expected --in-memory or --temporary; in a directory that is kept, the next start would \
                 write with earlier timestamps than its rows have"
            );
        }
        Ok(())
    }

    /// Listens at the address of each virtual node, or at `wanted`, the only address then.
    /// `listed` are the addresses of `--listen`.
    pub async fn bind(&self, wanted: SocketAddr, listed: &[SocketAddr]) -> anyhow::Result<Vec<TcpListener>> {
        let Some(Nodes(nodes)) = &self.nodes else { return Ok(vec![bind(wanted).await?]) };
        let addresses = addresses(wanted, listed, nodes.len())?;
        for _ in 1..PORT_ATTEMPTS {
            match bind_all(&addresses).await {
                // The port that was free at the first address is in use at another.
                Err(error) if wanted.port() == 0 && is_in_use(&error) => {}
                done => return done,
            }
        }
        bind_all(&addresses).await
    }

    /// Applies the options to those of the database, whose nodes listen on `addresses`, and logs
    /// warnings about them.
    pub fn apply(&self, options: &mut Options, addresses: &[IpAddr]) {
        options.fault_injection = self.fault_injection;
        if self.fault_injection {
            tracing::warn!(
                "faults can be injected into requests (--fault-injection): this server is for tests only"
            );
        }
        if let Some(number) = self.seed {
            tracing::warn!("UUIDs and times follow from a seed (--seed): this server is for tests only");
            let seed = Seed::new(number);
            options.seed = Some(match self.clock_start {
                Some(start) => seed.starting_at(start.into()),
                None => seed,
            });
        }
        if let Some(Nodes(nodes)) = &self.nodes {
            tracing::warn!(
                "{} virtual nodes share one store (--nodes): this server is for tests only",
                nodes.len()
            );
            let place =
                |((data_center, rack), address): (&(Option<String>, Option<String>), &IpAddr)| NodePlace {
                    address: *address,
                    data_center: data_center.clone().unwrap_or_else(|| options.node.data_center.clone()),
                    rack: rack.clone().unwrap_or_else(|| options.node.rack.clone()),
                };
            options.virtual_nodes = nodes.iter().zip(addresses).map(place).collect();
        }
    }
}

/// Returns the address of each node.
fn addresses(wanted: SocketAddr, listed: &[SocketAddr], count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    if wanted.ip().is_unspecified() {
        bail!("--nodes: each node needs its own address, found {}; list them with --listen", wanted.ip());
    }
    if listed.len() > 1 {
        if listed.len() != count {
            bail!("--listen: expected {count} addresses, one for each node, found {}", listed.len());
        }
        if let Some(other) = listed.iter().find(|address| address.port() != wanted.port()) {
            bail!(
                "--listen: expected the same port for all nodes, found {} and {}",
                wanted.port(),
                other.port()
            );
        }
        return Ok(listed.to_vec());
    }
    (0..count)
        .map(|index| {
            let next = match wanted.ip() {
                IpAddr::V4(first) => {
                    first.to_bits().checked_add(u32::try_from(index)?).map(|bits| IpAddr::V4(bits.into()))
                }
                IpAddr::V6(first) => {
                    first.to_bits().checked_add(index as u128).map(|bits| IpAddr::V6(bits.into()))
                }
            };
            let next = next.with_context(|| format!("--nodes: no address after {}", wanted.ip()))?;
            Ok(SocketAddr::new(next, wanted.port()))
        })
        .collect()
}

/// Listens on all addresses, with the port that the first one got.
async fn bind_all(addresses: &[SocketAddr]) -> anyhow::Result<Vec<TcpListener>> {
    let mut listeners: Vec<TcpListener> = Vec::with_capacity(addresses.len());
    for address in addresses {
        let port = match listeners.first() {
            Some(first) => first.local_addr()?.port(),
            None => address.port(),
        };
        listeners.push(bind(SocketAddr::new(address.ip(), port)).await?);
    }
    Ok(listeners)
}

fn is_in_use(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// Listens on an address.
pub async fn bind(wanted: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(wanted).await;
    listener.map_err(|error| {
        let context = cannot_listen(wanted, "--listen", &error);
        anyhow::Error::from(error).context(context)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_a_number_or_places() {
        let place =
            |data_center: &str, rack: Option<&str>| (Some(data_center.to_owned()), rack.map(str::to_owned));
        assert_eq!(parse_nodes("3").unwrap(), Nodes(vec![(None, None); 3]));
        assert_eq!(
            parse_nodes("dc1/r1,dc1/r2,dc2=2").unwrap(),
            Nodes(vec![
                place("dc1", Some("r1")),
                place("dc1", Some("r2")),
                place("dc2", None),
                place("dc2", None)
            ])
        );
        for text in ["", "0", "65", "dc1=", "dc1=x", "/r1", "dc1/", "dc1,,dc2", "dc1=60,dc2=60"] {
            assert!(parse_nodes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nodes_have_the_addresses_that_are_listed_or_follow_the_first() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let following = addresses(parse("127.0.0.1:9042"), &[], 3).unwrap();
        assert_eq!(following, ["127.0.0.1:9042", "127.0.0.2:9042", "127.0.0.3:9042"].map(parse));
        let listed = ["127.0.0.5:9042", "127.0.0.9:9042"].map(parse);
        assert_eq!(addresses(listed[0], &listed, 2).unwrap(), listed);
        assert!(addresses(listed[0], &listed, 3).is_err(), "one is missing");
        assert!(addresses(parse("0.0.0.0:9042"), &[], 2).is_err(), "not an address of a node");
        let ports = ["127.0.0.5:9042", "127.0.0.9:9043"].map(parse);
        assert!(addresses(ports[0], &ports, 2).is_err(), "drivers use one port");
    }
}
