#!/usr/bin/env python3
"""Writes the archive of the library for C: library.py DIRECTORY LIBRARY...

The libraries are a shared one (`.so`), a static one (`.a`), or both. Programs find them with pkg-config.
"""

import sys
from pathlib import Path

import contents

#: The number in the name by which programs find the shared library, as in crates/c/build.rs.
INTERFACE = 0

PKG_CONFIG = """\
prefix=${pcfiledir}/../..
libdir=${prefix}/lib
includedir=${prefix}/include

Name: cassette
Description: Cassette, a Cassandra-compatible database, as a library
Version: %s
Libs: -L${libdir} -lcassette
Libs.private: -lpthread -ldl -lm -lgcc_s
Cflags: -I${includedir}
"""


def build(directory, libraries):
    """Returns the path of the archive."""
    name = f"libcassette-{contents.version()}-linux-{contents.machine()}"
    tree = contents.Tree()
    tree.file(f"{name}/LICENSE", (contents.ROOT / "LICENSE").read_bytes())
    tree.file(f"{name}/include/cassette.h", (contents.ROOT / "crates/c/include/cassette.h").read_bytes())
    tree.file(f"{name}/lib/pkgconfig/cassette.pc", (PKG_CONFIG % contents.version()).encode())
    for library in libraries:
        if library.suffix == ".so":
            shared = f"libcassette.so.{INTERFACE}"
            tree.file(f"{name}/lib/{shared}", library.read_bytes(), mode=0o755)
            tree.link(f"{name}/lib/libcassette.so", shared)
        elif library.suffix == ".a":
            tree.file(f"{name}/lib/libcassette.a", library.read_bytes())
        else:
            raise ValueError(f"expected libraries with the suffixes .so and .a, found {library}")
    directory.mkdir(parents=True, exist_ok=True)
    archive = directory / f"{name}.tar.gz"
    archive.write_bytes(contents.gzipped(tree.tar()))
    return archive


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: library.py DIRECTORY LIBRARY...")
    print(build(Path(sys.argv[1]), [Path(path).resolve() for path in sys.argv[2:]]))
