//! `clientstats`.

use std::collections::BTreeMap;

use cassette_admin_api::{ClientReport, SeenClientReport};

use super::text::{Table, local_date};

/// The list before the totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    /// `--all`: the connections.
    pub connections: bool,
    /// `--client-options`: the connections, with the options of the clients.
    pub options: bool,
}

const COLUMNS: [&str; 10] = [
    "Address",
    "SSL",
    "Cipher",
    "Protocol",
    "Version",
    "User",
    "Keyspace",
    "Requests",
    "Driver-Name",
    "Driver-Version",
];

/// The clients that are connected.
pub(super) fn text(clients: &[ClientReport], listed: Listed) -> String {
    let mut text = String::new();
    for with_options in [false, true] {
        if clients.is_empty() || !(if with_options { listed.options } else { listed.connections }) {
            continue;
        }
        let mut table = Table::default();
        table.row(COLUMNS.into_iter().chain(with_options.then_some("Client-Options")));
        for client in clients {
            table.row(connection(client).into_iter().chain(with_options.then(|| options(client))));
        }
        text += &(table.text(" ") + "\n");
    }
    let mut users = Table::default();
    users.row(["User", "Connections"]);
    let mut counts = BTreeMap::new();
    for client in clients {
        *counts.entry(user(client)).or_insert(0) += 1;
    }
    for (user, count) in counts {
        users.row([user, &count.to_string()]);
    }
    text + &format!("Total connected clients: {}\n\n", clients.len()) + &users.text(" ")
}

/// Formats the addresses of clients, by protocol version.
pub(super) fn by_protocol(history: &[SeenClientReport]) -> String {
    let title = "Clients by protocol version\n\n".to_owned();
    if history.is_empty() {
        return title;
    }
    let mut table = Table::default();
    table.row(["Protocol-Version", "IP-Address", "Last-Seen"]);
    for seen in history {
        // Version 6 is marked as beta.
        let beta = if seen.protocol_version > 5 { "-beta" } else { "" };
        let version = format!("{0}/v{0}{beta}", seen.protocol_version);
        table.row([version, format!("/{}", seen.address), local_date(seen.last_seen)]);
    }
    title + &table.text(" ") + "\n"
}

fn connection(client: &ClientReport) -> [String; COLUMNS.len()] {
    let option = |name: &str| client.options.get(name).map_or("undefined", String::as_str).to_owned();
    [
        format!("/{}", client.address),
        client.tls_protocol.is_some().to_string(),
        client.tls_cipher_suite.clone().unwrap_or_else(|| "undefined".to_owned()),
        client.tls_protocol.clone().unwrap_or_else(|| "undefined".to_owned()),
        client.protocol_version.to_string(),
        user(client).to_owned(),
        client.keyspace.clone().unwrap_or_default(),
        client.requests.to_string(),
        option("DRIVER_NAME"),
        option("DRIVER_VERSION"),
    ]
}

fn options(client: &ClientReport) -> String {
    let options = client.options.iter().map(|(name, value)| format!("{name}={value}"));
    options.collect::<Vec<_>>().join(", ")
}

fn user(client: &ClientReport) -> &str {
    client.username.as_deref().unwrap_or("anonymous")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(port: u16, protocol_version: u8, keyspace: Option<&str>, requests: u64) -> ClientReport {
        let options = [
            ("COMPRESSION", "lz4"),
            ("CQL_VERSION", "3.4.7"),
            ("DRIVER_NAME", "Apache Cassandra Python Driver"),
            ("DRIVER_VERSION", "3.30.1"),
        ];
        ClientReport {
            address: format!("127.0.0.1:{port}"),
            username: None,
            stage: "ready".to_owned(),
            protocol_version,
            options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            requests,
            keyspace: keyspace.map(str::to_owned),
            tls_protocol: None,
            tls_cipher_suite: None,
        }
    }

    #[test]
    fn clients_are_listed_as_by_cassandra_with_options_sorted_by_name() {
        let clients = [client(56588, 5, None, 16), client(56604, 4, Some("system"), 3)];
        let listed = |connections, options| text(&clients, Listed { connections, options });
        let all = include_str!("recorded/clientstats_all.txt");
        assert_eq!(listed(true, false), all);
        assert_eq!(listed(false, true), include_str!("recorded/clientstats_options.txt"));
        let (_, totals) = all.split_once("\n\n").unwrap();
        assert_eq!(listed(false, false), totals);
    }

    #[test]
    fn protocols_are_listed_as_by_cassandra() {
        let seen = |protocol_version, last_seen| SeenClientReport {
            protocol_version,
            address: "127.0.0.1".to_owned(),
            last_seen,
        };
        let at = 1_795_286_558_000;
        // The time depends on the time zone.
        let recorded = include_str!("recorded/clientstats_protocols.txt")
            .replace("Nov 21, 2026 18:42:38", &local_date(at));
        assert_eq!(by_protocol(&[seen(4, at), seen(5, at)]), recorded);
        assert_eq!(local_date(at).len(), "Nov 21, 2026 18:42:38".len());
        assert_eq!(by_protocol(&[]), "Clients by protocol version\n\n");
    }
}
