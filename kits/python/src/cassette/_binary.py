"""Where the binary is."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

#: The variable that names the binary to use.
VARIABLE = "CASSETTE_BINARY"


class BinaryNotFoundError(FileNotFoundError):
    """There is no binary of Cassette."""


def find_binary() -> Path:
    """Returns the path of the binary: of the variable CASSETTE_BINARY, else of this package, else on PATH.

    Raises BinaryNotFoundError if there is none.
    """
    named = os.environ.get(VARIABLE)
    if named:
        path = Path(named).absolute()
        if not os.access(path, os.X_OK) or path.is_dir():
            raise BinaryNotFoundError(f"{VARIABLE}: expected a program, found {named}")
        return path
    bundled = _bundled()
    if bundled is not None:
        return bundled
    found = shutil.which("cassette")
    if found is None:
        raise BinaryNotFoundError(
            f"no binary of Cassette: this package has none for this platform, and PATH has no `cassette`. "
            f"Install one, or set {VARIABLE} to its path"
        )
    return Path(found)


def _bundled() -> Path | None:
    """Returns the binary that was installed with this package."""
    try:
        installed = files("cassette-db") or []
    except PackageNotFoundError:
        return None
    for file in installed:
        if file.name == "cassette":
            path = Path(str(file.locate())).resolve()
            if os.access(path, os.X_OK) and path.is_file():
                return path
    return None
