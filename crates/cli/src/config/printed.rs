//! The settings in effect, as a configuration file.

use std::collections::BTreeMap;
use std::fmt::Write;

use cassette_database::Options;
use cassette_server::ServerConfig;

use super::{AdminAddress, Config};

/// Formats the settings: one key a line. Groups of keys, which may contain passwords, are named in
/// comments.
///
/// # Errors
/// If guardrails are invalid.
pub fn printed(
    config: &Config,
    options: &Options,
    server: &ServerConfig,
    admin: &AdminAddress,
) -> anyhow::Result<String> {
    let mut settings = options.effective_settings()?;
    // The directory is that of --data; names with a dot are shown in system_views alone.
    settings.retain(|name, _| name != "data_file_directories" && !name.contains('.'));
    settings.extend(of_server(server).into_iter().map(|(name, value)| (name.to_owned(), Some(value))));
    settings.insert("admin_listen".to_owned(), Some(admin.to_string()));
    let slow = options.slow_query_log_timeout.unwrap_or_default();
    settings.insert("slow_query_log_timeout".to_owned(), Some(format!("{}ms", slow.as_millis())));
    let graphs = format!("{}MiB", options.vector_graph_memory >> 20);
    settings.insert("vector_graph_memory".to_owned(), Some(graphs));
    settings.insert("enforce_replica_counts".to_owned(), Some(options.enforce_replica_counts.to_string()));
    let mut text = if options.file_system.is_in_memory() {
        "# The files are in memory.\n".to_owned()
    } else {
        format!("# The data directory is {}.\n", options.engine.data_dir.display())
    };
    for group in config.groups() {
        let _ = writeln!(text, "# {group} is not shown.");
    }
    for (name, value) in settings {
        let _ = writeln!(text, "{name}: {}", value.map_or_else(|| "null".to_owned(), |value| scalar(&value)));
    }
    Ok(text)
}

fn of_server(server: &ServerConfig) -> BTreeMap<&'static str, String> {
    let mebibytes = |bytes: usize| {
        if bytes.is_multiple_of(1 << 20) { format!("{}MiB", bytes >> 20) } else { format!("{bytes}B") }
    };
    let limit = |limit: Option<usize>| limit.map_or_else(|| "-1".to_owned(), |limit| limit.to_string());
    let idle = server.idle_timeout.unwrap_or_default();
    [
        ("rpc_address", server.listen_address.ip().to_string()),
        ("native_transport_port", server.listen_address.port().to_string()),
        ("native_transport_max_frame_size", mebibytes(server.max_frame_size)),
        ("native_transport_max_concurrent_connections", limit(server.max_concurrent_connections)),
        (
            "native_transport_max_concurrent_connections_per_ip",
            limit(server.max_concurrent_connections_per_ip),
        ),
        ("native_transport_max_threads", server.max_threads.to_string()),
        ("native_transport_max_auth_threads", server.max_auth_threads.to_string()),
        ("native_transport_max_request_data_in_flight", mebibytes(server.max_request_data_in_flight)),
        (
            "native_transport_max_request_data_in_flight_per_ip",
            mebibytes(server.max_request_data_in_flight_per_ip),
        ),
        ("native_transport_max_response_size", mebibytes(server.max_response_size)),
        ("native_transport_max_response_data_in_flight", mebibytes(server.max_response_data_in_flight)),
        (
            "native_transport_max_response_data_in_flight_per_ip",
            mebibytes(server.max_response_data_in_flight_per_ip),
        ),
        ("native_transport_idle_timeout", format!("{}ms", idle.as_millis())),
    ]
    .into()
}

/// Returns a value in YAML: in quotes unless it is a word or a number.
fn scalar(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    if !value.is_empty() && value != "-" && value.chars().all(is_plain) {
        return value.to_owned();
    }
    // Every text of JSON is one of YAML.
    serde_json::Value::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn printed_of(text: &str) -> String {
        let config = Config::parse(text).unwrap();
        let options = config.database(Path::new("data")).unwrap();
        printed(&config, &options, &config.server().unwrap(), &AdminAddress::Off).unwrap()
    }

    #[test]
    fn printed_settings_are_a_configuration_with_the_same_effect() {
        for text in [
            "",
            "cluster_name: \"a: b #c\"\nkey_cache_size: 7MiB\nread_request_timeout: 3s\ntables_warn_threshold: 10\n\
             native_transport_max_frame_size: 20MiB\nnative_transport_max_threads: 9\nrow_cache_size: 3MiB\n\
             read_consistency_levels_warned: [ANY, ALL]\ncommitlog_sync: batch\nslow_query_log_timeout: 0ms\n\
             authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\nrpc_address: 127.0.0.9\n",
        ] {
            let printed = printed_of(text);
            assert_eq!(printed_of(&printed), printed, "of {text}");
            let others = Config::parse(&printed).unwrap().others;
            assert!(others.is_empty(), "without effect: {others:?}");
        }
        let printed = printed_of("key_cache_size: 7MiB\n");
        assert!(printed.contains("\nkey_cache_size: 7MiB\n"), "{printed}");
    }

    #[test]
    fn groups_with_secrets_are_named_and_not_shown() {
        let printed = printed_of("backup_options:\n  repository: /secret\n");
        assert!(
            printed.contains("# backup_options is not shown.\n") && !printed.contains("/secret"),
            "{printed}"
        );
    }
}
