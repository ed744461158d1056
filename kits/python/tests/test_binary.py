"""Where the binary is found: the variable, the package, PATH."""

import pytest
from cassette import BinaryNotFoundError, _binary, find_binary


def program(path):
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_variable_is_first(monkeypatch, tmp_path):
    named = program(tmp_path / "named")
    monkeypatch.setenv("CASSETTE_BINARY", str(named))
    assert find_binary() == named


def test_a_variable_that_names_no_program_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("CASSETTE_BINARY", str(tmp_path / "absent"))
    with pytest.raises(BinaryNotFoundError, match="expected a program"):
        find_binary()


def test_the_package_is_before_path(monkeypatch, tmp_path):
    bundled = program(tmp_path / "bundled")
    monkeypatch.delenv("CASSETTE_BINARY", raising=False)
    monkeypatch.setattr(_binary, "_bundled", lambda: bundled)
    program(tmp_path / "cassette")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == bundled


def test_path_is_last(monkeypatch, tmp_path):
    monkeypatch.delenv("CASSETTE_BINARY", raising=False)
    monkeypatch.setattr(_binary, "_bundled", lambda: None)
    on_path = program(tmp_path / "cassette")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == on_path
    on_path.unlink()
    with pytest.raises(BinaryNotFoundError, match="set CASSETTE_BINARY"):
        find_binary()
