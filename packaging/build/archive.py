#!/usr/bin/env python3
"""Writes the release archive and its checksum: archive.py BINARY DIRECTORY

The archive has the binary, its license, completions, manual pages, a service of systemd with its configuration, a
dashboard and alerts for monitoring, and the bill of materials, which is also beside it.
"""

import hashlib
import sys
from pathlib import Path

import contents
from sbom import sbom


def build(binary, directory):
    """Returns the path of the archive."""
    name = f"cassette-{contents.version()}-linux-{contents.machine()}"
    completions, pages = contents.documentation(binary)
    tree = contents.Tree()
    tree.file(f"{name}/cassette", binary.read_bytes(), mode=0o755)
    for file in ("LICENSE", "README.md", "CHANGELOG.md"):
        tree.file(f"{name}/{file}", (contents.ROOT / file).read_bytes())
    for shell, text in completions.items():
        tree.file(f"{name}/completions/{contents.COMPLETIONS[shell]}", text)
    for page, text in pages.items():
        tree.file(f"{name}/man/man1/{page}", text)
    tree.file(f"{name}/systemd/cassette.service", (contents.ROOT / "packaging/systemd/cassette.service").read_bytes())
    tree.file(f"{name}/systemd/cassandra.yaml", (contents.ROOT / "packaging/debian/cassandra.yaml").read_bytes())
    for file, text in contents.monitoring().items():
        tree.file(f"{name}/monitoring/{file}", text)
    materials = sbom()
    tree.file(f"{name}/{name}.cdx.json", materials)
    directory.mkdir(parents=True, exist_ok=True)
    archive = directory / f"{name}.tar.gz"
    archive.write_bytes(contents.gzipped(tree.tar()))
    (directory / f"{name}.cdx.json").write_bytes(materials)
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    (directory / f"{archive.name}.sha256").write_text(f"{checksum}  {archive.name}\n")
    return archive


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: archive.py BINARY DIRECTORY")
    print(build(Path(sys.argv[1]).resolve(), Path(sys.argv[2])))
