#!/usr/bin/env bash
# older.sh VERSION ARCHIVE [SYNC COMPRESSION]: fills a node of Cassandra VERSION (3.0.6 to 4.1) with RandomNode.java,
# and packs ARCHIVE.tar.gz. With SYNC and COMPRESSION, as RandomNode has them, the node is stopped without a flush.
# Needs Maven and JDK 17, which is newer than these versions support, and works for this.
set -euo pipefail
version=$1 archive=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
home=$work/home
mkdir -p "$home"

dependency() {
  echo "<dependency><groupId>org.apache.cassandra</groupId><artifactId>$1</artifactId><version>$version</version></dependency>"
}
thrift=$([[ $version == 3* ]] && dependency cassandra-thrift || true)
cat >"$work/pom.xml" <<X
<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>y</artifactId><version>1</version>
<dependencies>$(dependency cassandra-all)$thrift</dependencies></project>
X
(cd "$work" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib)

cat >"$home/cassandra.yaml" <<X
cluster_name: oracle
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: periodic
commitlog_sync_period_in_ms: 10000
commitlog_directory: $home/commitlog
data_file_directories: [$home/data]
saved_caches_directory: $home/saved_caches
hints_directory: $home/hints
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
endpoint_snitch: SimpleSnitch
disk_access_mode: standard
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{seeds: "127.0.0.1:7000"}]
X
echo '<configuration><root level="OFF"/></configuration>' >"$home/logback.xml"
javac -nowarn -d "$home" -cp "$work/lib/*" "$here/../oracle/RandomNode.java"
opens=()
for package in io lang lang.module lang.reflect math net nio util util.concurrent util.concurrent.atomic; do
  opens+=(--add-opens "java.base/java.$package=ALL-UNNAMED")
done
for package in jdk.internal.{loader,misc,ref,reflect,math,module,util.jar} sun.nio.ch; do
  opens+=(--add-exports "java.base/$package=ALL-UNNAMED" --add-opens "java.base/$package=ALL-UNNAMED")
done
for module in java.management.rmi/sun.management.jmxremote java.rmi/sun.rmi.{registry,server,transport,transport.tcp} \
  jdk.management/com.sun.management.internal jdk.unsupported/sun.misc; do
  opens+=(--add-exports "$module=ALL-UNNAMED" --add-opens "$module=ALL-UNNAMED")
done
# Without an agent, jamm cannot measure the classes of JDK 17.
java "${opens[@]}" "-javaagent:$(echo "$work"/lib/jamm-*.jar)" -Djava.security.manager=allow -Xmx1G -Dcassandra.start_rpc=false \
  -Dlogback.configurationFile=logback.xml -Dcassandra.config="file://$home/cassandra.yaml" \
  -Dcassandra.storagedir="$home" -cp "$home:$work/lib/*" RandomNode "$work/expected.json" 5 4 "$@"

# The tables that adoption reads.
mkdir -p "$work/node/data/system" "$work/node/commitlog"
if [[ $# != 0 ]]; then
  cp "$home"/commitlog/*.log "$work/node/commitlog/"
  # The log has writes of the other system tables: their directories have the ids.
  (cd "$home/data" && find system system_auth system_distributed system_traces -mindepth 1 -maxdepth 1 -type d) |
    (cd "$work/node/data" && xargs mkdir -p)
fi
cp -r "$home/data/random" "$home/data/system_schema" "$work/node/data/"
for table in local peers peers_v2 batches built_views; do
  cp -r "$home/data/system/$table"-* "$work/node/data/system/" 2>/dev/null || true
done
find "$work/node" \( -name snapshots -o -name backups \) -prune -exec rm -rf {} +
sed -i 's#"data": "[^"]*"#"data": "/node/data"#' "$work/expected.json"
cd "$work"
tar --format=ustar --sort=name --mtime='2026-11-23 00:00Z' --owner=0 --group=0 --numeric-owner \
  -cf - expected.json node | gzip -9n >"$here/$archive.tar.gz"
