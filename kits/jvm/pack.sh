#!/usr/bin/env bash
# Packs the module, and a jar with a binary for this platform: pack.sh BINARY DIRECTORY
set -euo pipefail
[ $# = 2 ] || { echo "usage: $0 BINARY DIRECTORY" >&2; exit 2; }
binary=$(realpath "$1")
mkdir -p "$2"
directory=$(realpath "$2")
cd "$(dirname "$0")"
platform=$(uname -s | tr '[:upper:]' '[:lower:]' | sed s/darwin/macos/)-$(uname -m | sed 's/^arm64$/aarch64/')
mvn --quiet --batch-mode -DskipTests package
jar=$(echo target/cassette-testing-*.jar)
cp "$jar" "$directory/"
staging=target/binary
rm -rf "$staging"
mkdir -p "$staging/META-INF/cassette/$platform"
cp "$binary" "$staging/META-INF/cassette/$platform/cassette"
sha256sum "$binary" | cut -d ' ' -f 1 >"$staging/META-INF/cassette/$platform/sha256"
jar --create --file "$directory/$(basename "$jar" .jar)-$platform.jar" -C "$staging" .
