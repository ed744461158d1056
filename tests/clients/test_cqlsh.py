"""cqlsh, unmodified, as people use it."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

CQLSH = Path(sys.executable).parent / "cqlsh"


@pytest.fixture
def cqlsh(contact):
    host, port = contact

    def run(*statements, check=True):
        result = subprocess.run(
            [CQLSH, host, str(port), "--no-color", "-e", ";\n".join(statements) + ";"],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "HOME": "/nonexistent", "COLUMNS": "200"},
        )
        if check:
            assert result.returncode == 0, result.stderr
        # It warns that it is older than the server it sees.
        lines = result.stdout.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("WARNING")) if check else result

    return run


@pytest.fixture
def keyspace(cqlsh):
    name = f"t{uuid.uuid4().hex[:16]}"
    cqlsh(f"CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    yield name
    cqlsh(f"DROP KEYSPACE {name}")


def test_rows_are_shown(cqlsh, keyspace):
    out = cqlsh(
        f"USE {keyspace}",
        "CREATE TABLE t (k int PRIMARY KEY, v text, m map<text, int>)",
        "INSERT INTO t (k, v, m) VALUES (1, 'one', {'a': 1})",
        "SELECT * FROM t",
    )
    assert " k | m        | v\n---+----------+-----\n 1 | {'a': 1} | one\n\n(1 rows)" in out


def test_describe_prints_the_indexes_of_a_table(cqlsh, keyspace):
    cqlsh(
        f"CREATE TABLE {keyspace}.t (k int PRIMARY KEY, v int, m map<text, int>)",
        f"CREATE INDEX ON {keyspace}.t (v)",
        f"CREATE INDEX by_key ON {keyspace}.t (KEYS(m))",
        f"CREATE CUSTOM INDEX attached ON {keyspace}.t (v) USING 'StorageAttachedIndex'",
    )
    described = cqlsh(f"DESCRIBE TABLE {keyspace}.t")
    assert f"CREATE INDEX t_v_idx ON {keyspace}.t (v);" in described
    assert f"CREATE INDEX by_key ON {keyspace}.t (keys(m));" in described
    assert f"CREATE CUSTOM INDEX attached ON {keyspace}.t (v) USING 'StorageAttachedIndex';" in described
    assert f"CREATE INDEX by_key ON {keyspace}.t (keys(m));" in cqlsh(f"DESCRIBE INDEX {keyspace}.by_key")


def test_describe_prints_what_makes_the_table_again(cqlsh, keyspace):
    cqlsh(
        f"CREATE TABLE {keyspace}.t (k int, c text, v list<int>, s int static, PRIMARY KEY (k, c))"
        " WITH CLUSTERING ORDER BY (c DESC) AND comment = 'kept'"
    )
    described = cqlsh(f"DESCRIBE TABLE {keyspace}.t")
    assert f"CREATE TABLE {keyspace}.t (" in described and "comment = 'kept'" in described
    cqlsh(f"DROP TABLE {keyspace}.t", described.strip().rstrip(";"))
    assert cqlsh(f"DESCRIBE TABLE {keyspace}.t") == described


@pytest.mark.parametrize(
    "statement", ["DESCRIBE KEYSPACES", "DESCRIBE CLUSTER", "DESCRIBE TABLES", "DESCRIBE SCHEMA", "SHOW VERSION", "SHOW HOST"]
)
def test_what_people_ask_first_is_answered(cqlsh, keyspace, statement):
    assert cqlsh(statement).strip()


def test_an_error_is_told_and_ends_with_a_failure(cqlsh, keyspace):
    result = cqlsh("SELECT * FROM nosuch.t", check=False)
    assert result.returncode != 0 and "keyspace nosuch does not exist" in result.stderr.lower()


def test_copy_takes_rows_out_and_in(cqlsh, keyspace, tmp_path):
    cqlsh(
        f"CREATE TABLE {keyspace}.t (k int PRIMARY KEY, v text)",
        *[f"INSERT INTO {keyspace}.t (k, v) VALUES ({k}, 'value {k}')" for k in range(20)],
    )
    file = tmp_path / "t.csv"
    cqlsh(f"COPY {keyspace}.t (k, v) TO '{file}'")
    assert len(file.read_text().splitlines()) == 20
    cqlsh(f"TRUNCATE {keyspace}.t", f"COPY {keyspace}.t (k, v) FROM '{file}'")
    assert "20" in cqlsh(f"SELECT count(*) FROM {keyspace}.t")
