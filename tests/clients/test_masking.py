"""Dynamic data masking, with roles, as Cassandra 5.0.8 answers.

`tests/conformance/masking/NAME.cql` holds statements, one a paragraph; `login ROLE` continues as that role. To write
down the answers again, start a Cassandra with PasswordAuthenticator, CassandraAuthorizer,
`dynamic_data_masking_enabled: true`, and validities of caches of 0ms:
CASSETTE_CONTACT=127.0.0.1:9042 pytest --record test_masking.py
"""

import json
import os
import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from cassandra.auth import PlainTextAuthProvider
from cassandra.query import SimpleStatement

from conftest import connect
from raw import RawHandler, answer
from server import Server

FOLDER = Path(__file__).resolve().parents[1] / "conformance" / "masking"
KEYSPACE = "conformance"
CONFIGURATION = """
authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
dynamic_data_masking_enabled: true
materialized_views_enabled: true
"""


@pytest.fixture(scope="module")
def contact_with_masks(tmp_path_factory):
    if "CASSETTE_CONTACT" in os.environ:
        host, port = os.environ["CASSETTE_CONTACT"].rsplit(":", 1)
        yield host, int(port)
        return
    folder = tmp_path_factory.mktemp("masking")
    (folder / "cassandra.yaml").write_text(CONFIGURATION)
    server = Server(folder / "data", "--admin", "off", "--config", folder / "cassandra.yaml").start()
    yield "127.0.0.1", server.port
    server.stop()


class Sessions:
    """One session for each role, in the keyspace of the cases."""

    def __init__(self, contact, stack):
        self.contact, self.stack, self.open = contact, stack, {}

    def of(self, role):
        if role not in self.open:
            options = {"auth_provider": PlainTextAuthProvider(role, role), "schema_metadata_enabled": False}
            cluster = self.stack.enter_context(connect(*self.contact, **options))
            session = cluster.connect()
            session.client_protocol_handler = RawHandler
            session.execute(f"USE {KEYSPACE}")
            self.open[role] = session
        return self.open[role]


def paragraphs(path):
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def answers(path, contact):
    with connect(*contact, auth_provider=PlainTextAuthProvider("cassandra", "cassandra")) as cluster:
        root = cluster.connect()
        root.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
        root.execute(
            f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )
        with ExitStack() as stack:
            sessions, role, found = Sessions(contact, stack), "cassandra", []
            for part in paragraphs(path):
                if part.startswith("login "):
                    role = part.removeprefix("login ")
                else:
                    found.append({"role": role, "statement": part, "answer": answer(sessions.of(role), part)})
        root.execute(f"DROP KEYSPACE {KEYSPACE}")
    return found


def in_order(answer):
    """The answer with the columns that its message enumerates in order: Cassandra takes them from a hash map."""
    before, found, listed = answer.get("message", "").partition("cannot query masked columns ")
    if not found:
        return answer
    return {**answer, "message": before + found + ", ".join(sorted(listed.strip("[]").split(", ")))}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.cql")), ids=lambda path: path.stem)
def test_masks_are_those_of_cassandra(path, contact_with_masks, request):
    found = answers(path, contact_with_masks)
    recorded = path.with_suffix(".json")
    if request.config.getoption("--record"):
        recorded.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        return
    expected = json.loads(recorded.read_text())

    def steps(answers):
        return [(each["role"], each["statement"]) for each in answers]

    assert steps(expected) == steps(found), "record the answers again"
    kept = json.loads((FOLDER / "differences.json").read_text()).get(path.stem, {})
    wrong, repeated = [], {}
    for ours, theirs in zip(found, expected):
        step = f"{ours['role']}: {ours['statement']}"
        repeated[step] = repeated.get(step, 0) + 1
        if repeated[step] > 1:
            step = f"{step} ({repeated[step]})"
        ours, theirs = in_order(ours["answer"]), in_order(theirs["answer"])
        if step in kept:
            if ours == theirs:
                wrong.append(f"{step}\n  no longer differs: take it out of differences.json")
            elif ours != kept[step]["answer"]:
                wrong.append(f"{step}\n  ours     {ours}\n  accepted {kept[step]['answer']}")
        elif ours != theirs:
            wrong.append(f"{step}\n  ours      {ours}\n  Cassandra {theirs}")
    assert not wrong, f"{len(wrong)} of {len(found)} answers differ:\n" + "\n".join(wrong)


def test_rows_are_ordered_paged_and_prepared_by_clear_values(contact_with_masks, request):
    if request.config.getoption("--record"):
        return
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"

    def login(role):
        return connect(*contact_with_masks, auth_provider=PlainTextAuthProvider(role, role))

    with login("cassandra") as cluster:
        root = cluster.connect()
        root.execute("DROP KEYSPACE IF EXISTS masking")
        root.execute(f"CREATE KEYSPACE masking WITH replication = {replication}")
        root.execute("CREATE TABLE masking.t (k int, c int MASKED WITH mask_replace(9), PRIMARY KEY (k, c))")
        root.execute("DROP ROLE IF EXISTS masked_user")
        root.execute("CREATE ROLE masked_user WITH PASSWORD = 'masked_user' AND LOGIN = true")
        root.execute("GRANT SELECT ON KEYSPACE masking TO masked_user")
        for k, c in [(1, 1), (1, 2), (2, 1), (2, 2)]:
            root.execute(f"INSERT INTO masking.t (k, c) VALUES ({k}, {c})")
        with login("masked_user") as cluster_of_user:
            user = cluster_of_user.connect()

            def rows(statement, fetch_size=None):
                return list(user.execute(SimpleStatement(statement, fetch_size=fetch_size)))

            descending = "SELECT k, c FROM masking.t WHERE k IN (1, 2) ORDER BY c DESC"
            assert rows(descending) == [(1, 9), (2, 9), (1, 9), (2, 9)]
            assert rows("SELECT k FROM masking.t WHERE k IN (1, 2) ORDER BY c DESC") == [(1,), (2,), (1,), (2,)]
            assert rows("SELECT k, c FROM masking.t WHERE k = 1", fetch_size=1) == [(1, 9), (1, 9)]
            prepared = user.prepare("SELECT c FROM masking.t WHERE k = ? ORDER BY c DESC")
            assert list(user.execute(prepared, [1])) == [(9,), (9,)]
            root.execute("GRANT UNMASK ON masking.t TO masked_user")
            assert list(user.execute(prepared, [1])) == [(2,), (1,)]
            root.execute("REVOKE UNMASK ON masking.t FROM masked_user")
            root.execute("ALTER TABLE masking.t ALTER c MASKED WITH mask_null()")
            assert list(user.execute(prepared, [1])) == [(None,), (None,)]
        root.execute("DROP ROLE masked_user")
        root.execute("DROP KEYSPACE masking")
