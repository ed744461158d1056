"""The test kits: their own tests, and their packages as users install them, without a checkout and without variables."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from server import BINARY, ROOT

KITS = ROOT / "kits"
BUILT = ROOT / ".cache" / "kits"


def run(*command, environment=None, cwd=None):
    """Runs a command with `environment` instead of CASSETTE_BINARY, and returns what it prints."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CASSETTE_", "PYTEST_"))}
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=inherited | {name: str(value) for name, value in (environment or {}).items()},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, f"{command}:\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def require(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing and "CASSETTE_REQUIRE_ORACLE" not in os.environ:
        pytest.skip(f"not installed: {', '.join(missing)}")


def copied(kit):
    """A copy of a kit, so that its tools leave nothing in the checkout. What they downloaded before stays."""
    target = BUILT / kit
    ignored = shutil.ignore_patterns("node_modules", "target", "__pycache__")
    for part in ("src", "lib", "test", "tests", "scripts"):
        shutil.rmtree(target / part, ignore_errors=True)
    shutil.copytree(KITS / kit, target, dirs_exist_ok=True, ignore=ignored)
    return target


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    """The binary without symbols, as in packages."""
    stripped = tmp_path_factory.mktemp("binary") / "cassette"
    if shutil.which("strip"):
        run("strip", "-o", stripped, BINARY)
    else:
        shutil.copy(BINARY, stripped)
    return stripped


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """The embedded database for Python without symbols, as in packages."""
    built = BINARY.parent / "deps" / "libcassette_python.so"
    assert built.exists(), f"{built}: build it with cargo test --workspace --no-run --test interpreter"
    stripped = tmp_path_factory.mktemp("module") / built.name
    if shutil.which("strip"):
        run("strip", "-o", stripped, built)
    else:
        shutil.copy(built, stripped)
    return stripped


@pytest.fixture
def without_binary(tmp_path):
    """An environment in which no kit finds a binary outside of its package."""
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if not (Path(part) / "cassette").exists())
    return {"PATH": path, "XDG_CACHE_HOME": tmp_path / "cache"}


def test_all_kits_have_the_version_of_the_binary():
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert tomllib.loads((KITS / "python" / "pyproject.toml").read_text())["project"]["version"] == version
    assert json.loads((KITS / "node" / "package.json").read_text())["version"] == version
    assert re.search(r"<version>(.*?)</version>", (KITS / "jvm" / "pom.xml").read_text())[1] == version
    for readme in KITS.glob("*/README.md"):
        assert set(re.findall(r"\d+\.\d+\.\d+", readme.read_text())) <= {version, "127.0.0"}, readme


def test_the_python_kit(binary, module, without_binary, tmp_path):
    wheels = tmp_path / "wheels"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    contents = {"CASSETTE_BINARY": binary, "CASSETTE_MODULE": module}
    run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, copied("python"), environment=contents)
    (wheel,) = wheels.glob("*.whl")
    assert re.search(r"-cp39-abi3-(manylinux_2_\d+|macosx_\d+_\d+)_\w+\.whl$", wheel.name), wheel
    environment = BUILT / "python-environment"
    python = environment / "bin" / "python"
    requirements = (ROOT / "tests" / "clients" / "requirements.txt").read_text().split()
    requirements = [each for each in requirements if each.startswith(("pytest", "cassandra-driver"))]
    # For rows as tables; servers in tests do not need them.
    requirements += (KITS / "python" / "requirements-tests.txt").read_text().split()
    installed = environment / "installed"
    if not installed.exists() or installed.read_text().split() != requirements:
        run(sys.executable, "-m", "venv", "--clear", environment)
        run(python, "-m", "pip", "install", "--quiet", "--no-compile", *requirements)
        installed.write_text("\n".join(requirements))
    run(python, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", wheel)
    run(python, "-c", "import cassette._embedded, pandas, pyarrow", environment=without_binary)
    # The other tests of the embedded database need no package: `crates/python` runs them.
    only = ("-k", "not test_embedded or Tables")
    run(python, "-m", "pytest", "-q", *only, "--rootdir", BUILT / "python", BUILT / "python" / "tests", environment=without_binary)
    # The wheel is also an installation of the command.
    assert run(environment / "bin" / "cassette", "--version") == run(binary, "--version")


def test_the_go_kit(binary):
    require("go")
    environment = {"CASSETTE_BINARY": binary}
    assert run("gofmt", "-l", KITS / "go") == ""
    run("go", "vet", "./...", cwd=KITS / "go", environment=environment)
    run("go", "test", "-count=1", "./...", cwd=KITS / "go", environment=environment)


def test_the_node_kit(binary, without_binary, tmp_path):
    require("npm")
    kit = copied("node")
    lock = (kit / "package-lock.json").read_text()
    installed = kit / "node_modules" / "installed"
    if not installed.exists() or installed.read_text() != lock:
        run("npm", "ci", "--no-audit", "--no-fund", cwd=kit)
        installed.write_text(lock)
    run("npm", "test", cwd=kit, environment={"CASSETTE_BINARY": binary})

    run("node", kit / "scripts" / "pack.js", binary, tmp_path)
    (package,) = tmp_path.glob("*.tgz")
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"private": true}')
    run("npm", "install", "--no-audit", "--no-fund", "--offline", package, cwd=project)
    program = """
        import { start } from 'cassette-db'
        const server = await start()
        console.log(await server.execute('SELECT cluster_name FROM system.local', { format: 'json' }))
        await server.stop()
    """
    printed = run("node", "--input-type=module", "--eval", program, cwd=project, environment=without_binary)
    assert json.loads(printed) == {"cluster_name": "Test Cluster"}
    assert run(project / "node_modules" / ".bin" / "cassette", "--version") == run(binary, "--version")


def test_the_jvm_kit(binary, without_binary, tmp_path):
    require("mvn", "javac", "jar")
    kit = copied("jvm")
    run("mvn", "-q", "-B", "-f", kit / "pom.xml", "test", environment={"CASSETTE_BINARY": binary})

    run(kit / "pack.sh", binary, tmp_path)
    jars = sorted(tmp_path.glob("*.jar"))
    assert len(jars) == 2, jars
    # Without the driver and JUnit, which are optional.
    (tmp_path / "Program.java").write_text(
        """
        import cassette.testing.CassetteServer;

        class Program {
            public static void main(String[] arguments) {
                try (CassetteServer server = CassetteServer.start()) {
                    System.out.print(server.execute("SELECT cluster_name FROM system.local;"));
                }
            }
        }
        """
    )
    classpath = os.pathsep.join(str(jar) for jar in jars)
    for _ in range(2):  # The second time, the binary is in the cache.
        printed = run("java", "-cp", classpath, tmp_path / "Program.java", environment=without_binary)
        assert "Test Cluster" in printed
    (extracted,) = (tmp_path / "cache" / "cassette").iterdir()
    assert extracted.stat().st_mode & 0o777 == 0o700
