//! Configuration of a node: pom.xml for its jars, cassandra.yaml, arguments of Java.

use std::fmt::Write;
use std::path::Path;

use super::ClusterSettings;

/// Returns a Maven project whose dependencies are the jars.
pub(super) fn pom(version: &str) -> String {
    format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>lab</groupId><artifactId>cassandra</artifactId>\
         <version>1</version><dependencies><dependency><groupId>org.apache.cassandra</groupId>\
         <artifactId>cassandra-all</artifactId><version>{version}</version></dependency></dependencies></project>\n"
    )
}

/// Returns cassandra.yaml of node `number`: the required settings, overridden by those of the
/// cluster.
pub(super) fn yaml(settings: &ClusterSettings, number: usize, directory: &Path) -> String {
    let address = settings.address(number);
    let directory = directory.display();
    let needed = [
        ("cluster_name", "laboratory".to_owned()),
        ("num_tokens", "16".into()),
        ("partitioner", "org.apache.cassandra.dht.Murmur3Partitioner".into()),
        ("commitlog_sync", "periodic".into()),
        ("commitlog_sync_period", "10000ms".into()),
        ("commitlog_directory", format!("{directory}/commitlog")),
        ("data_file_directories", format!("[{directory}/data]")),
        ("saved_caches_directory", format!("{directory}/saved_caches")),
        ("hints_directory", format!("{directory}/hints")),
        ("cdc_raw_directory", format!("{directory}/cdc")),
        (
            "seed_provider",
            format!(
                "[{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: \"{}:{}\"}}]}}]",
                settings.address(1),
                STORAGE_PORT
            ),
        ),
        ("listen_address", address.to_string()),
        ("rpc_address", address.to_string()),
        ("native_transport_port", settings.port.to_string()),
        ("storage_port", STORAGE_PORT.to_string()),
        ("endpoint_snitch", "SimpleSnitch".into()),
        ("auto_snapshot", "false".into()),
    ];
    // The period belongs to one sync mode, and Cassandra rejects it together with another one.
    let is_said = |name: &str| {
        settings.yaml.contains_key(name)
            || name == "commitlog_sync_period" && settings.yaml.contains_key("commitlog_sync")
    };
    let mut text = String::new();
    for (name, value) in needed.iter().filter(|(name, _)| !is_said(name)) {
        let _ = writeln!(text, "{name}: {value}");
    }
    for (name, value) in &settings.yaml {
        let _ = writeln!(text, "{name}: {value}");
    }
    text
}

const STORAGE_PORT: u16 = 17_000;

/// Returns the JMX port of node `number` on 127.0.0.1.
pub(super) fn jmx_port(settings: &ClusterSettings, number: usize) -> u16 {
    // Clusters on other networks get other ports.
    17_200 + u16::from(settings.network[2]) * 20 + number as u16
}

pub(super) const LOGBACK: &str = r#"<configuration>
<appender name="F" class="ch.qos.logback.core.FileAppender"><file>system.log</file>
<encoder><pattern>%-5level %date %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="F"/></root></configuration>
"#;

/// Packages opened by Cassandra's jvm11-server.options and jvm17-server.options.
pub(super) const JAVA_OPENS: &[&str] = &[
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.logging/java.util.logging",
    "java.management.rmi/sun.management.jmxremote",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.management/com.sun.management.internal",
    "jdk.unsupported/sun.misc",
];

/// Returns the arguments that open a package.
pub(super) fn open(package: &str) -> [String; 4] {
    let all = format!("{package}=ALL-UNNAMED");
    ["--add-exports".into(), all.clone(), "--add-opens".into(), all]
}

/// Returns the Java arguments of node `number`.
pub(super) fn java_arguments(
    settings: &ClusterSettings,
    number: usize,
    directory: &Path,
    library: &Path,
) -> Vec<String> {
    let (heap, node) = (&settings.heap, directory.display());
    let mut arguments: Vec<String> = JAVA_OPENS.iter().flat_map(|package| open(package)).collect();
    arguments.extend([
        "-XX:+UseG1GC".into(),
        "-XX:+AlwaysPreTouch".into(),
        "-Xss256k".into(),
        format!("-Xms{heap}"),
        format!("-Xmx{heap}"),
        "-Djdk.attach.allowAttachSelf=true".into(),
        "-Djava.net.preferIPv4Stack=true".into(),
        "-Dlogback.configurationFile=logback.xml".into(),
        format!("-Dcassandra.storagedir={node}"),
        "-Dcassandra-foreground=yes".into(),
        "-Dcassandra.superuser_setup_delay_ms=0".into(),
        "-Dcassandra.skip_wait_for_gossip_to_settle=0".into(),
        "-Dcassandra.ring_delay_ms=2000".into(),
        format!("-Dcassandra.config=file://{node}/conf/cassandra.yaml"),
        format!("-Dcassandra.jmx.local.port={}", jmx_port(settings, number)),
    ]);
    arguments.extend(settings.java.iter().cloned());
    arguments.extend([
        "-cp".into(),
        format!("{node}/conf:{}/*", library.display()),
        "org.apache.cassandra.service.CassandraDaemon".into(),
    ]);
    arguments
}

/// Parses the major version in the output of `java -version`: `openjdk version "17.0.15" …`, `java
/// version "1.8.0_402"`.
pub(super) fn java_version(text: &str) -> Option<u32> {
    let version = text.split('"').nth(1)?;
    let mut numbers = version.split(['.', '-', '+', '_']).map(str::parse::<u32>);
    match numbers.next()?.ok()? {
        1 => numbers.next()?.ok(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_override_those_a_node_needs() {
        let mut settings = ClusterSettings { nodes: 2, ..Default::default() };
        settings.yaml.insert("num_tokens".into(), "1".into());
        settings.yaml.insert("row_cache_size".into(), "64MiB".into());
        let text = yaml(&settings, 2, Path::new("/x"));
        assert!(
            text.contains("listen_address: 127.0.77.2\n") && text.contains("seeds: \"127.0.77.1:17000\""),
            "{text}"
        );
        assert!(text.contains("row_cache_size: 64MiB\n"));
        assert_eq!(text.matches("num_tokens").count(), 1);
    }

    #[test]
    fn java_versions_are_parsed_in_both_forms() {
        assert_eq!(java_version("openjdk version \"17.0.15\" 2025-04-15\n"), Some(17));
        assert_eq!(java_version("java version \"1.8.0_402\""), Some(8));
        assert_eq!(java_version("openjdk version \"21-ea\""), Some(21));
        assert_eq!(java_version("not found"), None);
    }
}
