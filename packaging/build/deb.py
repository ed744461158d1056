#!/usr/bin/env python3
"""Writes a package for Debian and Ubuntu: deb.py BINARY DIRECTORY

It has the binary, completions, manual pages, a service of systemd and its configuration, and a dashboard and alerts for
monitoring, and needs `dpkg-deb` alone.
"""

import hashlib
import os
import re
import sys
import tempfile
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import contents
from sbom import sbom

SOURCES = contents.ROOT / "packaging" / "debian"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/cassette",
    "zsh": "usr/share/zsh/vendor-completions/_cassette",
    "fish": "usr/share/fish/vendor_completions.d/cassette.fish",
}


def data(binary):
    """The files that the package installs."""
    completions, pages = contents.documentation(binary)
    tree = contents.Tree()
    tree.file("usr/bin/cassette", binary.read_bytes(), mode=0o755)
    tree.file("usr/lib/systemd/system/cassette.service", (contents.ROOT / "packaging/systemd/cassette.service").read_bytes())
    tree.file("etc/cassette/cassandra.yaml", (SOURCES / "cassandra.yaml").read_bytes())
    for shell, text in completions.items():
        tree.file(COMPLETIONS[shell], text)
    for page, text in pages.items():
        tree.file(f"usr/share/man/man1/{page}.gz", contents.gzipped(text))
    for file, text in contents.monitoring().items():
        tree.file(f"usr/share/cassette/monitoring/{file}", text)
    documents = "usr/share/doc/cassette"
    tree.file(f"{documents}/copyright", (SOURCES / "copyright").read_bytes())
    tree.file(f"{documents}/changelog.gz", contents.gzipped(changelog()))
    tree.file(f"{documents}/CHANGELOG.md.gz", contents.gzipped((contents.ROOT / "CHANGELOG.md").read_bytes()))
    tree.file(f"{documents}/sbom.cdx.json", sbom())
    return tree


def changelog():
    """The changelog in Debian's format."""
    maintainer = re.search(r"^Maintainer: (.*)$", (SOURCES / "control").read_text(), re.MULTILINE)[1]
    date = format_datetime(datetime.fromtimestamp(contents.epoch(), UTC))
    version = contents.version()
    return f"cassette ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- {maintainer}  {date}\n".encode()


def control(binary, tree):
    """The files that describe the package."""
    libc = contents.glibc(binary)
    values = {
        "VERSION": contents.version(),
        "ARCHITECTURE": ARCHITECTURES[contents.machine()],
        "SIZE": str(sum(len(content) for _, content in tree.entries.values()) // 1024),
        "LIBC": f"libc6 (>= {libc}), libgcc-s1, " if libc else "",
    }
    text = (SOURCES / "control").read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    files = {path: content for path, (entry, content) in sorted(tree.entries.items()) if entry.isfile()}
    sums = "".join(f"{hashlib.md5(content).hexdigest()}  {path}\n" for path, content in files.items())
    found = contents.Tree()
    found.file("DEBIAN/control", text.encode())
    found.file("DEBIAN/conffiles", b"/etc/cassette/cassandra.yaml\n")
    found.file("DEBIAN/md5sums", sums.encode())
    for script in ("postinst", "prerm", "postrm"):
        found.file(f"DEBIAN/{script}", (SOURCES / script).read_bytes(), mode=0o755)
    return found


def build(binary, directory):
    """Returns the path of the package."""
    tree = data(binary)
    directory.mkdir(parents=True, exist_ok=True)
    package = directory / f"cassette_{contents.version()}_{ARCHITECTURES[contents.machine()]}.deb"
    with tempfile.TemporaryDirectory() as staging:
        os.chmod(staging, 0o755)
        tree.extract(staging)
        control(binary, tree).extract(staging)
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(contents.epoch())}
        compression = ["-Zxz"] if contents.COMPRESSION == 9 else ["-Zgzip", f"-z{contents.COMPRESSION}"]
        contents.output("dpkg-deb", "--root-owner-group", *compression, "--build", staging, package, env=environment)
    return package


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: deb.py BINARY DIRECTORY")
    print(build(Path(sys.argv[1]).resolve(), Path(sys.argv[2])))
