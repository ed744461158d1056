"""The scenarios of Cassandra's own authorization tests, as Cassandra 5.0.8 answers them.

The scenarios are in tests/conformance/authorization, whose README.md says what is left out.

`pytest test_authorization.py --record` writes down the answers of the server at CASSETTE_CONTACT, a Cassandra with
PasswordAuthenticator, CassandraAuthorizer, CassandraNetworkAuthorizer, dynamic_data_masking_enabled, validities of
caches of 0ms, and -Dcassandra.role_password_update_min_interval_in_ms=0.
"""

import json
import os
import re
from pathlib import Path

import pytest
from cassandra import DriverException
from cassandra.auth import PlainTextAuthenticator
from cassandra.protocol import AuthResponseMessage, AuthSuccessMessage, ErrorMessage, QueryMessage

from server import Server
from test_cidr import ONE, Client, plain

FOLDER = Path(__file__).parents[1] / "conformance" / "authorization"
FILES = sorted(FOLDER.glob("*.cql"))
CONFIGURATION = """
authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
network_authorizer: CassandraNetworkAuthorizer
materialized_views_enabled: true
dynamic_data_masking_enabled: true
roles_validity: 0ms
permissions_validity: 0ms
credentials_validity: 0ms
"""
KEYSPACES = "SELECT keyspace_name FROM system_schema.keyspaces"
ROLES = "SELECT role FROM system_auth.roles"


def scenarios(text):
    """The lines of each scenario of a file, by its name."""
    found = {}
    for line in text.splitlines():
        if line.startswith("== "):
            found[line[3:]] = lines = []
        elif line:
            lines.append(line)
    return found


class Session(Client):
    """A connection of a role. `welcome`: what the server said to the password."""

    def __init__(self, contact, role, password):
        self.credentials = role, password
        super().__init__(contact, role, "127.0.0.1")

    def request(self, message):
        if isinstance(message, AuthResponseMessage):
            token = PlainTextAuthenticator(*self.credentials).evaluate_challenge(b"PLAIN-START")
            self.welcome = super().request(AuthResponseMessage(token))
            return AuthSuccessMessage(None)
        return super().request(message)

    def execute(self, cql):
        reply = super().request(QueryMessage(cql, ONE))
        if isinstance(reply, ErrorMessage):
            return refused(reply)
        rows = [plain(list(row)) for row in reply.parsed_rows or []]
        return {"columns": reply.column_names, "rows": sorted(rows, key=json.dumps)} if reply.column_names else {}


def refused(error):
    # The existing table or keyspace is a part of its own, which the driver makes words of.
    message = error.message if isinstance(error.message, str) else str(error.message)
    return {"error": f"{error.code:04x}", "message": message}


class Player:
    """Plays scenarios: one connection for each role, from its first statement or its latest login on."""

    def __init__(self, contact):
        self.contact = contact
        self.sessions = {}

    def login(self, role, password):
        session = Session(self.contact, role, password)
        if isinstance(session.welcome, ErrorMessage):
            session.socket.close()
            return refused(session.welcome)
        if role in self.sessions:
            self.sessions[role].socket.close()
        self.sessions[role] = session
        return {}

    def answer(self, line):
        if line.startswith("login "):
            return self.login(*line.split()[1:])
        role, mark, cql = re.match(r"(\w+)([:~]) (.*)", line).groups()
        if role not in self.sessions:
            welcome = self.login(role, role)
            assert not welcome, f"{line}: {welcome}"
        if mark == ":":
            return self.sessions[role].execute(cql)
        # Contents of system tables differ: what counts is whether the role reads them.
        try:
            answer = self.sessions[role].execute(cql)
        except DriverException:  # the driver has no datetime for the furthest timestamps
            return {}
        return answer if "error" in answer else {}

    def play(self, lines):
        answers = [(line, self.answer(line)) for line in lines]
        self.clean()
        return answers

    def clean(self):
        for session in self.sessions.values():
            session.socket.close()
        self.sessions = {}
        self.login("cassandra", "cassandra")
        root = self.sessions["cassandra"]
        leftovers = [f"DROP KEYSPACE {name}" for [name] in root.execute(KEYSPACES)["rows"]
                     if not name.startswith("system")]
        leftovers += [f"DROP ROLE '{name}'" for [name] in root.execute(ROLES)["rows"] if name != "cassandra"]
        for statement in leftovers:
            answer = root.execute(statement)
            assert not answer, f"{statement}: {answer}"


@pytest.fixture(scope="module")
def player(tmp_path_factory):
    if "CASSETTE_CONTACT" in os.environ:
        host, port = os.environ["CASSETTE_CONTACT"].rsplit(":", 1)
        yield Player((host, int(port)))
        return
    folder = tmp_path_factory.mktemp("authorization")
    (folder / "cassandra.yaml").write_text(CONFIGURATION)
    server = Server(folder / "data", "--admin", "off", "--config", folder / "cassandra.yaml").start()
    yield Player(("127.0.0.1", server.port))
    server.stop()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenarios_are_answered_as_by_cassandra(path, player, request):
    answers = {name: player.play(lines) for name, lines in scenarios(path.read_text()).items()}
    recorded = path.with_suffix(".json")
    if request.config.getoption("--record"):
        parts = [
            f" {json.dumps(name)}: [\n" + ",\n".join(f"  {json.dumps(step)}" for step in steps) + "\n ]"
            for name, steps in answers.items()
        ]
        recorded.write_text("{\n" + ",\n".join(parts) + "\n}\n")
        return
    theirs = json.loads(recorded.read_text())
    assert [(name, [line for line, _ in steps]) for name, steps in theirs.items()] == [
        (name, [line for line, _ in steps]) for name, steps in answers.items()
    ], "record the answers again"
    differences = json.loads((FOLDER / "differences.json").read_text())
    different = []
    for name, steps in answers.items():
        for number, (line, ours) in enumerate(steps):
            expected = theirs[name][number][1]
            argued = differences.get(name, {}).get(line)
            if argued:
                expected = argued["answer"]
            if ours != expected:
                different.append({"scenario": name, "line": line, "ours": ours, "expected": expected})
    assert not different, f"{len(different)} answers differ:\n" + json.dumps(different, indent=1)


def test_argued_differences_are_of_recorded_answers():
    recorded = {}
    for path in FILES:
        recorded.update(json.loads(path.with_suffix(".json").read_text()))
    for name, lines in json.loads((FOLDER / "differences.json").read_text()).items():
        for line, argued in lines.items():
            assert argued["reason"]
            assert [line, argued["answer"]] not in recorded[name], f"{line}: no difference"
            assert line in [step[0] for step in recorded[name]], f"{line}: not in {name}"
