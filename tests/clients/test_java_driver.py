"""The Java driver, unmodified: built with Maven and run against the server under test."""

import subprocess
from pathlib import Path

import pytest

from server import ROOT

PROJECT = Path(__file__).resolve().parent / "java"
BUILT = ROOT / ".cache" / "java-driver"


@pytest.fixture(scope="module")
def classpath():
    lib, classes = BUILT / "lib", BUILT / "classes"
    if not (BUILT / "done").exists():
        run("mvn", "-q", "-B", "-f", PROJECT / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={lib}")
        (BUILT / "done").touch()
    run("javac", "-nowarn", "-cp", f"{lib}/*", "-d", classes, *PROJECT.rglob("*.java"))
    return f"{classes}:{lib}/*"


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_java_driver_passes_its_checks(classpath, contact):
    host, port = contact
    out = run("java", "-XX:TieredStopAtLevel=1", "-cp", classpath, "DriverCheck", host, port)
    assert out.count("ok ") == 8, out
