#!/usr/bin/env python3
"""Writes a container image without a container engine: image.py BINARY DIRECTORY

The file is an archive of an OCI image layout, which also has the manifest that older versions of `docker load` read. The
image has the binary and the C library alone; docs/installing.md describes it.
"""

import hashlib
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import contents

#: The user of Cassandra's image, so that volumes and settings of either fit the other.
USER = 999
PORTS = {"7199/tcp": {}, "9042/tcp": {}}
DATA = "/var/lib/cassandra"
SCRIPTS = "/docker-entrypoint-initdb.d"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


def libraries(binary):
    """The paths of the libraries that the loader needs, as the binary and its libraries name them."""
    found = re.findall(r"^\s*(?:\S+ => )?(/\S+) \(0x", contents.output("ldd", binary), re.MULTILINE)
    return [Path(path) for path in found]


def root(binary):
    """The root file system."""
    tree = contents.Tree()
    tree.file("usr/bin/cassette", binary.read_bytes(), mode=0o755)
    # The names that health checks, scripts and Testcontainers call.
    tree.link("usr/bin/cqlsh", "cassette")
    tree.link("usr/bin/nodetool", "cassette")
    if contents.glibc(binary):
        for library in libraries(binary):
            tree.file(str(library).removeprefix("/"), library.read_bytes(), mode=0o755)
    user = f"cassandra:x:{USER}:{USER}::{DATA}:/sbin/nologin\n"
    tree.file("etc/passwd", f"root:x:0:0:root:/:/sbin/nologin\n{user}".encode())
    tree.file("etc/group", f"root:x:0:\ncassandra:x:{USER}:\n".encode())
    tree.file("etc/nsswitch.conf", b"hosts: files dns\n")
    if AUTHORITIES.exists():
        tree.file(str(AUTHORITIES).removeprefix("/"), AUTHORITIES.read_bytes())
    tree.file("usr/share/doc/cassette/LICENSE", (contents.ROOT / "LICENSE").read_bytes())
    tree.directory("etc/cassandra")
    tree.directory(SCRIPTS.removeprefix("/"))
    tree.directory("tmp", mode=0o1777)
    tree.directory("var")
    tree.directory("var/lib")
    tree.directory(DATA.removeprefix("/"), mode=0o700, owner=USER)
    return tree


def configuration(layer):
    """The configuration of the image."""
    created = datetime.fromtimestamp(contents.epoch(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "created": created,
        "architecture": ARCHITECTURES[contents.machine()],
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": PORTS,
            "Env": ["PATH=/usr/bin", f"HOME={DATA}"],
            "Entrypoint": ["/usr/bin/cassette", "container", "--"],
            "WorkingDir": "/",
            "Volumes": {DATA: {}},
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "cassette",
                "org.opencontainers.image.version": contents.version(),
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.created": created,
            },
            # Unlike nodetool, this needs no password. Durations are nanoseconds.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/cassette", "container", "--check"],
                "Interval": 10_000_000_000,
                "Timeout": 5_000_000_000,
                "StartPeriod": 60_000_000_000,
                "Retries": 3,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "packaging/build/image.py"}],
    }


def digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def encoded(document):
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def build(binary, directory):
    """Returns the path of the archive."""
    version = contents.version()
    layer = root(binary).tar()
    archive = contents.Tree()

    def blob(data, media_type):
        archive.file(f"blobs/{digest(data).replace(':', '/')}", data)
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    config = blob(encoded(configuration(layer)), "application/vnd.oci.image.config.v1+json")
    packed = blob(contents.gzipped(layer), "application/vnd.oci.image.layer.v1.tar+gzip")
    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": manifest_type, "config": config, "layers": [packed]}
    described = blob(encoded(manifest), manifest_type) | {
        "annotations": {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/cassette:{version}"},
        "platform": {"architecture": ARCHITECTURES[contents.machine()], "os": "linux"},
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [described]}
    archive.file("index.json", encoded(index))
    archive.file("oci-layout", encoded({"imageLayoutVersion": "1.0.0"}))
    path = {part["digest"]: f"blobs/{part['digest'].replace(':', '/')}" for part in (config, packed)}
    docker = {"Config": path[config["digest"]], "RepoTags": [f"cassette:{version}"], "Layers": [path[packed["digest"]]]}
    archive.file("manifest.json", encoded([docker]))
    directory.mkdir(parents=True, exist_ok=True)
    written = directory / f"cassette-{version}-{ARCHITECTURES[contents.machine()]}-image.tar"
    written.write_bytes(archive.tar())
    return written


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: image.py BINARY DIRECTORY")
    print(build(Path(sys.argv[1]).resolve(), Path(sys.argv[2])))
