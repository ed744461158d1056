"""What all packages share: version and time of the build, properties of the binary, documentation, reproducible archives.

Archives are equal for equal inputs: entries are sorted, owned by root, and have the time of SOURCE_DATE_EPOCH, or else of
the last commit.
"""

import gzip
import io
import os
import platform
import re
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The level of compression, 1 to 9: tests compress less.
COMPRESSION = 9
COMPLETIONS = {"bash": "cassette.bash", "zsh": "_cassette", "fish": "cassette.fish"}


def monitoring():
    """The files for Grafana and Prometheus by name."""
    return {file.name: file.read_bytes() for file in sorted((ROOT / "packaging" / "monitoring").iterdir())}


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def epoch():
    """The time of all files, seconds since 1970."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or output("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def machine():
    return platform.machine()


def output(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, **options).stdout.decode()


def glibc(binary):
    """The oldest glibc that the binary runs with, such as "2.34", or None if it is linked statically."""
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", output("readelf", "--version-info", "--wide", binary))
    return "{}.{}".format(*max((int(major), int(minor)) for major, minor in versions)) if versions else None


def documentation(binary):
    """(completions by shell, manual pages by name), as the binary writes them."""
    completions = {shell: output(binary, "completions", shell).encode() for shell in COMPLETIONS}
    with tempfile.TemporaryDirectory() as directory:
        output(binary, "man", directory)
        pages = {page.name: page.read_bytes() for page in sorted(Path(directory).iterdir())}
    return completions, pages


def gzipped(data):
    """Compressed data without time and name."""
    return gzip.compress(data, compresslevel=COMPRESSION, mtime=0)


class Tree:
    """Files, directories and links, to be archived."""

    def __init__(self):
        self.entries = {}

    def _add(self, path, kind, mode, owner, data=b"", target=""):
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(data), target
        entry.uid = entry.gid = owner
        entry.mtime = epoch()
        self.entries[path] = (entry, data)

    def directory(self, path, mode=0o755, owner=0):
        self._add(path, tarfile.DIRTYPE, mode, owner)

    def file(self, path, data, mode=0o644):
        for parent in reversed(Path(path).parents[:-1]):
            if str(parent) not in self.entries:
                self.directory(str(parent))
        self._add(path, tarfile.REGTYPE, mode, 0, data)

    def link(self, path, target):
        self._add(path, tarfile.SYMTYPE, 0o777, 0, target=target)

    def tar(self):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted(self.entries):
                entry, data = self.entries[path]
                archive.addfile(entry, io.BytesIO(data))
        return buffer.getvalue()

    def extract(self, directory):
        """Writes the entries below a directory, with the owner of this process."""
        with tarfile.open(fileobj=io.BytesIO(self.tar())) as archive:
            for member in archive:
                member.uid, member.gid = os.getuid(), os.getgid()
                archive.extract(member, directory, numeric_owner=True, filter="fully_trusted")
