#!/usr/bin/env bash
# An Apache Cassandra of one node on loopback, to measure beside Cassette: jars from Maven Central, the machine's JDK 17.
#
#   benches/cassandra.sh start | stop | pid
#
# CASSANDRA_VERSION (5.0.8), CASSANDRA_HEAP (2G), CASSANDRA_PORT (9242) and CASSANDRA_DIR (.cache/cassandra) change what they say.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
version=${CASSANDRA_VERSION:-5.0.8}
heap=${CASSANDRA_HEAP:-2G}
port=${CASSANDRA_PORT:-9242}
dir=${CASSANDRA_DIR:-$root/.cache/cassandra}
node=$dir/node

jars() {
  [ -e "$dir/lib/cassandra-all-$version.jar" ] && return
  mkdir -p "$dir"
  cat >"$dir/pom.xml" <<POM
<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>y</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>$version</version></dependency></dependencies></project>
POM
  (cd "$dir" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >/dev/null)
}

configuration() {
  mkdir -p "$node/conf"
  cat >"$node/conf/cassandra.yaml" <<YAML
cluster_name: benchmark
num_tokens: 16
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_directory: $node/commitlog
data_file_directories: [$node/data]
saved_caches_directory: $node/saved_caches
hints_directory: $node/hints
cdc_raw_directory: $node/cdc
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{seeds: "127.0.0.1:17000"}]
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: $port
storage_port: 17000
endpoint_snitch: SimpleSnitch
auto_snapshot: false
YAML
  cat >"$node/conf/logback.xml" <<XML
<configuration><appender name="F" class="ch.qos.logback.core.FileAppender"><file>$node/system.log</file><encoder><pattern>%-5level %date %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="F"/></root></configuration>
XML
}

start() {
  jars
  rm -rf "$node"
  configuration
  # What Cassandra's own jvm17-server.options opens.
  local flags=(-Djdk.attach.allowAttachSelf=true -XX:+UseG1GC -XX:+AlwaysPreTouch -Xss256k "-Xms$heap" "-Xmx$heap"
    -Dlogback.configurationFile=logback.xml "-Dcassandra.storagedir=$node" -Dcassandra-foreground=yes
    -Dcassandra.superuser_setup_delay_ms=0 -Dcassandra.skip_wait_for_gossip_to_settle=0 -Djava.net.preferIPv4Stack=true
    "-Dcassandra.config=file://$node/conf/cassandra.yaml" -Dcassandra.jmx.local.port=17199)
  local package
  for package in java.base/{java.io,java.lang,java.lang.module,java.lang.reflect,java.math,java.net,java.nio,java.util,java.util.concurrent,java.util.concurrent.atomic,jdk.internal.loader,jdk.internal.misc,jdk.internal.ref,jdk.internal.reflect,jdk.internal.math,jdk.internal.module,jdk.internal.util.jar,sun.nio.ch} \
    java.management.rmi/sun.management.jmxremote java.rmi/sun.rmi.{registry,server,transport,transport.tcp} java.sql/java.sql \
    jdk.management/com.sun.management.internal jdk.unsupported/sun.misc java.logging/java.util.logging; do
    flags+=(--add-exports "$package=ALL-UNNAMED" --add-opens "$package=ALL-UNNAMED")
  done
  (cd "$node" && exec setsid java "${flags[@]}" -cp "$node/conf:$dir/lib/*" org.apache.cassandra.service.CassandraDaemon \
    >"$node/stdout.log" 2>&1 </dev/null & echo $! >"$node/pid")
  for _ in $(seq 240); do
    grep -q "Starting listening for CQL clients" "$node/system.log" 2>/dev/null && return
    kill -0 "$(cat "$node/pid")" 2>/dev/null || { tail -5 "$node/stdout.log" >&2; exit 1; }
    sleep 0.5
  done
  echo "Cassandra did not listen within two minutes; see $node/system.log" >&2
  exit 1
}

case ${1:-} in
  start) start ;;
  stop) [ -f "$node/pid" ] && kill "$(cat "$node/pid")" && rm -f "$node/pid" ;;
  pid) cat "$node/pid" ;;
  *) sed -n '2,6p' "$0"; exit 2 ;;
esac
