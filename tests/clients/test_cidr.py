"""CassandraCIDRAuthorizer: statements, tables, commands of nodetool and refusals, as Cassandra 5.0.8 answers.

`pytest test_cidr.py --record -k record` writes down the answers of the Cassandra at CASSETTE_CONTACT, which has
the configuration of the run in CASSETTE_RUN. CASSETTE_NODETOOL is the command of its nodetool.
"""

import base64
import json
import os
import re
import shlex
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from cassandra.auth import PlainTextAuthenticator
from cassandra.protocol import (
    AuthenticateMessage,
    AuthResponseMessage,
    AuthSuccessMessage,
    BatchMessage,
    ErrorMessage,
    ExecuteMessage,
    PrepareMessage,
    ProtocolHandler,
    QueryMessage,
    StartupMessage,
)
from cassandra.query import BatchType

from raw import refusal
from test_audit import Audited

RECORDED = Path(__file__).parents[1] / "conformance" / "cidr.json"
ONE = 1
VERSION = 4

# Who, from which address of loopback, which statement; or `$` and a command of nodetool.
ROOT = ("cassandra", "127.0.0.1")
N1, N2, N3 = [("n", f"127.0.0.{last}") for last in (1, 2, 3)]
C1, C2, C3 = [("cc", f"127.0.0.{last}") for last in (1, 2, 3)]
LOCAL = "SELECT key FROM system.local"
GROUPS = "SELECT * FROM system_auth.cidr_groups"
PERMISSIONS = "SELECT * FROM system_auth.cidr_permissions"
INSERT = "INSERT INTO system_auth.cidr_groups (cidr_group, cidrs)"
COUNTS = "SELECT * FROM system_views.cidr_filtering_metrics_counts"
LATENCIES = "SELECT * FROM system_views.cidr_filtering_metrics_latencies"

STATEMENTS = [
    (*ROOT, cql)
    for cql in [
        "CREATE ROLE n WITH PASSWORD = 'n' AND LOGIN = true",
        "CREATE ROLE su WITH PASSWORD = 'su' AND LOGIN = true AND SUPERUSER = true",
        "CREATE ROLE member WITH PASSWORD = 'member' AND LOGIN = true",
        "CREATE USER usr WITH PASSWORD 'usr'",
        "CREATE USER usr2 WITH PASSWORD 'x' ACCESS FROM ALL CIDRS",
        "CREATE USER usr2 WITH PASSWORD 'x' AND ACCESS FROM ALL CIDRS",
        "ALTER USER usr WITH PASSWORD 'usr' AND ACCESS FROM ALL CIDRS",
        "CREATE ROLE r1 WITH ACCESS FROM CIDRS {}",
        "CREATE ROLE r1 WITH ACCESS FROM CIDRS {nope}",
        "CREATE ROLE r1 WITH ACCESS FROM CIDR {'nope'}",
        "CREATE ROLE r1 WITH ACCESS FROM CIDRS {'nope'}",
        "CREATE ROLE r1 WITH ACCESS FROM ALL CIDRS AND ACCESS FROM CIDRS {'nope'}",
        "CREATE ROLE r1 WITH ACCESS FROM CIDRS {'nope'} AND ACCESS FROM ALL CIDRS",
        "CREATE ROLE r1 WITH ACCESS FROM ALL CIDRS AND ACCESS FROM ALL CIDRS",
        "DROP ROLE IF EXISTS r1",
        "CREATE ROLE IF NOT EXISTS n WITH ACCESS FROM CIDRS {'nope'}",
        "CREATE ROLE '' WITH ACCESS FROM CIDRS {'nope'}",
        "CREATE ROLE n WITH ACCESS FROM CIDRS {'nope'}",
        "ALTER ROLE IF EXISTS nosuch WITH ACCESS FROM CIDRS {'nope'}",
        "ALTER ROLE IF EXISTS nosuch WITH ACCESS FROM ALL CIDRS",
        "ALTER ROLE nosuch WITH ACCESS FROM ALL CIDRS",
        "ALTER ROLE n WITH ACCESS FROM CIDRS {'nope'}",
    ]
] + [
    (*N1, "ALTER ROLE n WITH ACCESS FROM ALL CIDRS"),
    (*N1, "ALTER ROLE n WITH ACCESS FROM CIDRS {'nope'}"),
    (*N1, "CREATE ROLE made WITH ACCESS FROM ALL CIDRS"),
    (*N1, GROUPS),
    (*N1, PERMISSIONS),
    (*N1, COUNTS),
    (*ROOT, "GRANT CREATE ON ALL ROLES TO n"),
    (*N1, "CREATE ROLE made WITH ACCESS FROM ALL CIDRS"),
    (*N1, "ALTER ROLE made WITH ACCESS FROM ALL CIDRS"),
    (*ROOT, "GRANT SELECT ON system_auth.cidr_groups TO n"),
    (*ROOT, "GRANT MODIFY ON system_auth.cidr_groups TO n"),
    (*N1, GROUPS),
    (*N1, "INSERT INTO system_auth.cidr_groups (cidr_group, cidrs) VALUES ('x', {('1.2.3.4', 32)})"),
    (*N1, "DELETE FROM system_auth.cidr_permissions WHERE role = 'n'"),
    (*ROOT, PERMISSIONS),
    (*ROOT, "DROP ROLE made"),
    (*ROOT, "DESCRIBE TABLE system_views.cidr_filtering_metrics_counts"),
    (*ROOT, "DESCRIBE TABLE system_views.cidr_filtering_metrics_latencies"),
    (*ROOT, "DELETE FROM system_views.cidr_filtering_metrics_counts WHERE name = 'x'"),
    (*ROOT, "TRUNCATE system_views.cidr_filtering_metrics_counts"),
    (*ROOT, "INSERT INTO system_views.cidr_filtering_metrics_latencies (name) VALUES ('x')"),
    (*ROOT, "SELECT * FROM system_views.cidr_permissions_cache_keys"),
]

UPDATES = [
    ("$", "listcidrgroups"),
    ("$", "updatecidrgroup"),
    ("$", "updatecidrgroup", "g1"),
    ("$", "updatecidrgroup", "", "1.2.3.4/24"),
    ("$", "updatecidrgroup", "g1", "127.0.0.1/32"),
    ("$", "updatecidrgroup", "g2", "127.0.0.2/32", "10.0.0.0/8"),
    ("$", "updatecidrgroup", "wide", "127.0.0.1/8"),
    ("$", "updatecidrgroup", "G1", "10.1.0.0/16", "10.1.0.0/16", "10.1.2.3/16"),
    ("$", "updatecidrgroup", "also", "10.1.0.0/16"),
    ("$", "updatecidrgroup", "six", "2001:db8::/32", "FE80::1/64", "2001:db8:0:1::ff/128"),
    ("$", "updatecidrgroup", "mapped", "::ffff:1.2.3.4/120", "::ffff:0102:0304/120"),
    ("$", "updatecidrgroup", "everywhere6", "::/0"),
    ("$", "updatecidrgroup", "plus", "1.2.3.4/+8", "1.2.3.4/08"),
    ("$", "updatecidrgroup", "a b", "1.2.3.4/31"),
] + [
    ("$", "updatecidrgroup", "bad", "1.2.3.4/24", wrong)
    for wrong in [
        "1.2.3.4", "1.2.3.4/33", "1.2.3.4/-1", "1.2.3.4/", "1.2.3.4/8/9", "1.2.3.4/x", "1.2.3.4/40000",
        "::1/129", "::ffff:1.2.3.4/95", "::ffff:1.2.3.4/129", "nonsense", "1.2.3.4.5/8", "1.2.3.256/8", "1:2:3/64",
        "", " 1.2.3.4/8", "::1%lo/128", "1.2.3.4:80/8",
    ]
] + [
    ("$", "listcidrgroups"),
    ("$", "listcidrgroups", "g1"),
    ("$", "listcidrgroups", "g2", "more"),
    ("$", "listcidrgroups", "G1"),
    ("$", "listcidrgroups", "wide"),
    ("$", "listcidrgroups", "six"),
    ("$", "listcidrgroups", "mapped"),
    ("$", "listcidrgroups", "everywhere6"),
    ("$", "listcidrgroups", "plus"),
    ("$", "listcidrgroups", "bad"),
    (*ROOT, GROUPS),
]

ADDRESSES = [
    "127.0.0.1", "127.0.0.2", "127.0.0.3", "10.1.2.3", "10.2.3.4", "8.8.8.8", "1.2.3.9", "2001:db8::5",
    "2001:db8:0:1::ff", "fe80::2", "::1", "::ffff:127.0.0.1",
]

LOOKUPS = [("$", "getcidrgroupsofip", address) for address in ADDRESSES] + [
    ("$", "getcidrgroupsofip"),
    ("$", "getcidrgroupsofip", "nonsense"),
    ("$", "getcidrgroupsofip", "1.2.3.4/8"),
    ("$", "getcidrgroupsofip", "127.0.0.1", "127.0.0.2"),
]

REFUSED = [
    LOCAL,
    "USE system",
    "LIST ROLES OF n",
    "DESCRIBE KEYSPACES",
    "SELECT * FROM system_auth.roles",
    "SELECT * FROM nosuch.t",
    "SELEC",
    "INSERT INTO system_auth.cidr_groups (cidr_group) VALUES ('x')",
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "ALTER ROLE n WITH PASSWORD = 'n'",
    "PREPARE: SELECT cluster_name FROM system.local",
    "PREPARE: SELECT * FROM system_auth.roles",
    f"EXECUTE: {LOCAL}",
    "BATCH: INSERT INTO system_auth.cidr_groups (cidr_group) VALUES ('x')",
]

REFUSALS = [
    (*N1, LOCAL),
    (*N1, f"PREPARE: {LOCAL}"),
    (*N1, f"EXECUTE: {LOCAL}"),
    (*ROOT, "ALTER ROLE n WITH ACCESS FROM CIDRS {'g1', 'nope'}"),
    (*ROOT, "ALTER ROLE n WITH ACCESS FROM CIDRS {'G2'}"),
    (*ROOT, "ALTER ROLE n WITH ACCESS FROM CIDRS {'g2', 'g2'}"),
    (*ROOT, "CREATE ROLE cc WITH PASSWORD = 'cc' AND LOGIN = true AND ACCESS FROM CIDRS {'wide', 'g1'}"),
    (*ROOT, "GRANT n TO member"),
    (*ROOT, PERMISSIONS),
    (*ROOT, "LIST ROLES"),
    *((*N1, cql) for cql in REFUSED),
    (*N2, LOCAL),
    (*N3, LOCAL),
    (*C1, LOCAL),
    (*C2, LOCAL),
    (*C3, LOCAL),
    ("member", "127.0.0.1", LOCAL),
    # Groups that are changed take effect with the next reload.
    ("$", "updatecidrgroup", "g2", "127.0.0.3/32"),
    (*N2, LOCAL),
    (*N3, LOCAL),
    ("$", "reloadcidrgroupscache"),
    (*N2, LOCAL),
    (*N3, LOCAL),
    ("$", "dropcidrgroup"),
    ("$", "dropcidrgroup", "g2", "g1"),
    ("$", "dropcidrgroup", "nosuch"),
    ("$", "dropcidrgroup", "g2"),
    (*N3, LOCAL),
    ("$", "reloadcidrgroupscache"),
    (*N3, LOCAL),
    (*ROOT, PERMISSIONS),
    (*ROOT, "ALTER ROLE n WITH ACCESS FROM ALL CIDRS"),
    (*N3, LOCAL),
    # Direct changes.
    (*ROOT, "UPDATE system_auth.cidr_permissions SET cidr_groups = {'g1'} WHERE role = 'n'"),
    ("$", "invalidatecidrpermissionscache"),
    (*N3, LOCAL),
    (*N1, LOCAL),
    (*ROOT, f"{INSERT} VALUES ('direct', {{('9.0.0.0', 8), ('9.9.9.9', 40)}})"),
    (*ROOT, f"{INSERT} VALUES ('low', {{('7.7.7.7', 8)}})"),
    ("$", "reloadcidrgroupscache"),
    ("$", "getcidrgroupsofip", "9.1.1.1"),
    ("$", "getcidrgroupsofip", "7.1.1.1"),
    ("$", "listcidrgroups", "direct"),
    ("$", "listcidrgroups", "low"),
    (*ROOT, "DELETE FROM system_auth.cidr_groups WHERE cidr_group = 'direct'"),
    (*ROOT, "DELETE FROM system_auth.cidr_groups WHERE cidr_group = 'low'"),
    # A role that lost LOGIN has no access from anywhere.
    (*C1, LOCAL),
    (*ROOT, "ALTER ROLE cc WITH LOGIN = false"),
    (*C1, LOCAL),
    (*ROOT, "DROP ROLE cc"),
    (*C1, LOCAL),
    (*ROOT, PERMISSIONS),
]

SUPERUSERS = [
    (*ROOT, "ALTER ROLE su WITH ACCESS FROM CIDRS {'g1'}"),
    ("su", "127.0.0.1", LOCAL),
    ("su", "127.0.0.2", LOCAL),
    (*ROOT, "LIST ROLES OF su"),
]

METRICS = [
    (*ROOT, COUNTS),
    (*ROOT, LATENCIES),
    ("$", "cidrfilteringstats"),
    (*ROOT, "SELECT * FROM system_views.settings WHERE name = 'cidr_authorizer'"),
    (*ROOT, "SELECT * FROM system_views.settings WHERE name = 'cidr_authorizer.class_name'"),
    (*ROOT, "SELECT * FROM system_views.settings WHERE name = 'cidr_authorizer.parameters'"),
    ("$", "invalidatecidrpermissionscache"),
    ("$", "invalidatecidrpermissionscache", "nosuch", "other"),
]

# Java's parser of addresses accepts these.
LENIENT = [
    ("$", "updatecidrgroup", "lenient", "/8"),
    ("$", "updatecidrgroup", "lenient", "[::1]/128"),
]

ENFORCED = (
    STATEMENTS
    + UPDATES
    + [("$", "getcidrgroupsofip", "127.0.0.1"), ("$", "reloadcidrgroupscache")]
    + LOOKUPS
    + REFUSALS
    + SUPERUSERS
    + METRICS
    + LENIENT
)

MONITORED = [
    (*ROOT, "CREATE ROLE n WITH PASSWORD = 'n' AND LOGIN = true"),
    (*ROOT, "CREATE ROLE su WITH PASSWORD = 'su' AND LOGIN = true AND SUPERUSER = true"),
    ("$", "updatecidrgroup", "g1", "127.0.0.1/32"),
    ("$", "updatecidrgroup", "g2", "127.0.0.2/32"),
    ("$", "reloadcidrgroupscache"),
    (*ROOT, "ALTER ROLE n WITH ACCESS FROM CIDRS {'g2'}"),
    (*N1, LOCAL),
    (*N2, LOCAL),
    (*N3, LOCAL),
    ("$", "getcidrgroupsofip", "127.0.0.3"),
    (*ROOT, "ALTER ROLE su WITH ACCESS FROM CIDRS {'g2'}"),
    ("su", "127.0.0.1", LOCAL),
    (*N1, LOCAL),
    ("$", "invalidatecidrpermissionscache", "n", "nosuch"),
    ("$", "invalidatecidrpermissionscache", "n"),
    (*ROOT, COUNTS),
]

UNRESTRICTED = [
    (*ROOT, "CREATE ROLE n WITH PASSWORD = 'n' AND LOGIN = true"),
    (*ROOT, "ALTER ROLE n WITH ACCESS FROM CIDRS {'g1'}"),
    ("$", "updatecidrgroup", "g1", "127.0.0.1/32"),
    ("$", "listcidrgroups"),
    ("$", "listcidrgroups", "g1"),
    ("$", "reloadcidrgroupscache"),
    ("$", "getcidrgroupsofip", "127.0.0.1"),
    ("$", "getcidrgroupsofip", "nonsense"),
    ("$", "invalidatecidrpermissionscache"),
    ("$", "invalidatecidrpermissionscache", "n"),
    ("$", "cidrfilteringstats"),
    (*ROOT, "ALTER ROLE n WITH ACCESS FROM CIDRS {'g1'}"),
    (*ROOT, "CREATE ROLE cc WITH ACCESS FROM CIDRS {'g1'}"),
    (*N2, LOCAL),
    (*ROOT, PERMISSIONS),
    (*ROOT, COUNTS),
    (*ROOT, LATENCIES),
    ("$", "dropcidrgroup", "g1"),
    (*ROOT, "DROP ROLE cc"),
    (*ROOT, PERMISSIONS),
    (*ROOT, GROUPS),
]

RUNS = {"enforced": ENFORCED, "monitored": MONITORED, "unrestricted": UNRESTRICTED}

AUTHENTICATED = "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n"
CONFIGURATIONS = {
    # Caches of Cassandra keep changed roles and permissions for so long.
    "enforced": "cidr_authorizer:\n  class_name: CassandraCIDRAuthorizer\n  parameters:\n"
                "    cidr_authorizer_mode: ENFORCE\n    cidr_checks_for_superusers: true\n"
                "roles_validity: 100ms\npermissions_validity: 100ms\n",
    "monitored": "cidr_authorizer:\n  class_name: CassandraCIDRAuthorizer\n"
                 "  parameters:\n    cidr_authorizer_mode: MONITOR\nroles_validity: 1h\n",
    "unrestricted": "",
}


class Client:
    """A connection from a chosen address, without the requests that drivers make themselves."""

    def __init__(self, contact, role, source):
        self.socket = socket.create_connection(contact, timeout=60, source_address=(source, 0))
        self.prepared = {}
        reply = self.request(StartupMessage(cqlversion="3.4.7", options={}))
        assert isinstance(reply, AuthenticateMessage), reply
        token = PlainTextAuthenticator(role, role).evaluate_challenge(b"PLAIN-START")
        reply = self.request(AuthResponseMessage(token))
        assert isinstance(reply, AuthSuccessMessage), reply

    def request(self, message):
        self.socket.sendall(ProtocolHandler.encode_message(message, 1, VERSION, None, False))
        header = self.read(9)
        body = self.read(int.from_bytes(header[5:9], "big"))
        return ProtocolHandler.decode_message(VERSION, {}, 1, header[1], header[4], body, None, None)

    def read(self, length):
        out = b""
        while len(out) < length:
            part = self.socket.recv(length - len(out))
            assert part, "the server closed the connection"
            out += part
        return out

    def answer(self, text, statements):
        kind, _, cql = text.rpartition(": ") if text.split(":")[0].isupper() else ("", "", text)
        if kind == "PREPARE":
            reply = self.request(PrepareMessage(cql))
            if not isinstance(reply, ErrorMessage):
                statements[cql] = reply.query_id
                return {"prepared": cql}
        elif kind == "EXECUTE":
            reply = self.request(ExecuteMessage(statements[cql], [], ONE))
        elif kind == "BATCH":
            reply = self.request(BatchMessage(BatchType.LOGGED, [(False, cql, [])] * 2, ONE))
        else:
            reply = self.request(QueryMessage(cql, ONE))
        if isinstance(reply, ErrorMessage):
            error = refusal(f'code={reply.code:04x} [{reply.summary}] message="{reply.message}"')
            return {**error, "message": reply.message}
        rows = [plain(list(row)) for row in reply.parsed_rows or []]
        return {"columns": reply.column_names, "rows": sorted(rows, key=json.dumps)} if reply.column_names else {}


def plain(value):
    """A value that JSON can hold."""
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if hasattr(value, "_items"):  # a set or a map of the driver
        return [plain(part) for part in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def ran(process):
    """What a command of nodetool printed, without Java's stack trace and warnings."""
    ignored = re.compile(r"^(WARN|SLF4J|\tat |-- StackTrace|java\.|org\.|Caused by|\t\.\.\.)")
    error = [line for line in process.stderr.splitlines() if line and not ignored.match(line)]
    return {"exit": process.returncode, "out": process.stdout, "error": error}


def performed(run, contact, nodetool, pause=0.0):
    """The answers to the steps of a run."""
    clients, statements, answers = {}, {}, []
    for who, *step in RUNS[run]:
        if who == "$":
            answers.append(ran(nodetool(*step)))
            continue
        time.sleep(pause)
        source, text = step
        if (who, source) not in clients:
            clients[who, source] = Client(contact, who, source)
        answers.append(clients[who, source].answer(text, statements))
    for client in clients.values():
        client.socket.close()
    return answers


def test_record(pytestconfig):
    if not pytestconfig.getoption("--record"):
        pytest.skip("only with --record")
    run = os.environ["CASSETTE_RUN"]
    host, port = os.environ["CASSETTE_CONTACT"].rsplit(":", 1)
    command = shlex.split(os.environ["CASSETTE_NODETOOL"])

    def nodetool(*words):
        return subprocess.run([*command, *words], capture_output=True, text=True, check=False)

    answers = performed(run, (host, int(port)), nodetool, pause=0.25)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {"recorded from": "Apache Cassandra 5.0.8"}
    recorded[run] = [[list(step), answer] for step, answer in zip(RUNS[run], answers)]
    lines = ",\n".join(
        f" {json.dumps(name)}: " + (
            json.dumps(part) if isinstance(part, str)
            else "[\n" + ",\n".join(f"  {json.dumps(pair)}" for pair in part) + "\n ]"
        )
        for name, part in recorded.items()
    )
    RECORDED.write_text("{\n" + lines + "\n}\n")


# The answers here that differ on purpose.
NOT_VALID = {"exit": 2, "out": ""}
DIFFERENT = {
    # The text of the statement, which may contain a password, is no part of the error.
    "CREATE ROLE r1 WITH ACCESS FROM ALL CIDRS AND ACCESS FROM CIDRS {'nope'}":
        {"error": "2000", "message": "ACCESS FROM ALL CIDRS and ACCESS FROM CIDRS are mutually exclusive"},
    "CREATE ROLE r1 WITH ACCESS FROM CIDRS {'nope'} AND ACCESS FROM ALL CIDRS":
        {"error": "2000", "message": "ACCESS FROM ALL CIDRS and ACCESS FROM CIDRS are mutually exclusive"},
    "updatecidrgroup bad 1.2.3.4/24 1.2.3.4/x": {**NOT_VALID, "error": ["error: 1.2.3.4/x is not a valid CIDR String"]},
    "updatecidrgroup bad 1.2.3.4/24 1.2.3.4/40000":
        {**NOT_VALID, "error": ["error: 1.2.3.4/40000 is not a valid CIDR String"]},
    "updatecidrgroup lenient /8": {**NOT_VALID, "error": ["error: /8 is not a valid CIDR String"]},
    "updatecidrgroup lenient [::1]/128": {**NOT_VALID, "error": ["error: [::1]/128 is not a valid CIDR String"]},
    # Invalid CIDRs are left out, and host bits removed, where Cassandra shows what is stored.
    "listcidrgroups direct": {"exit": 0, "out": "CIDRs:   \n9.0.0.0/8\n", "error": []},
    "listcidrgroups low": {"exit": 0, "out": "CIDRs:   \n7.0.0.0/8\n", "error": []},
    # DESCRIBE is checked, too.
    "DESCRIBE KEYSPACES": {"error": "2100", "message": "You do not have access from this IP 127.0.0.1"},
}
PARAMETERS = "SELECT * FROM system_views.settings WHERE name = 'cidr_authorizer.parameters'"
DIFFERENT[PARAMETERS] = {
    "columns": ["name", "value"],
    # In the order of their names.
    "rows": [["cidr_authorizer.parameters", "{cidr_authorizer_mode=ENFORCE, cidr_checks_for_superusers=true}"]],
}
MEASURED = [COUNTS, LATENCIES, "cidrfilteringstats"]


def comparable(step, answer):
    """An answer without the order of Java's sets and without measured numbers."""
    answer = dict(answer)
    if "message" in answer:
        answer["message"] = re.sub(
            r"\[([^]]*)\]", lambda names: f"[{', '.join(sorted(names[1].split(', ')))}]", answer["message"]
        )
    if step[-1] in MEASURED and "rows" in answer:
        answer["rows"] = [[row[0]] + ["N" for _ in row[1:]] for row in answer["rows"]]
    if step[-1] in MEASURED and "out" in answer:
        answer["out"] = re.sub(r" +", " ", re.sub(r"\b[\d.]+ *(?= |$)", "N", answer["out"], flags=re.M))
    if "out" in answer:
        answer["out"] = sorted(answer["out"].splitlines())
    return answer


@pytest.fixture
def serve(tmp_path):
    servers = []

    def serve(configuration):
        servers.append(Audited(tmp_path, configuration))
        return servers[-1].start()

    yield serve
    for server in servers:
        server.stop()


@pytest.mark.parametrize("run", RUNS)
def test_answers_are_those_of_cassandra(run, serve):
    server = serve(AUTHENTICATED + CONFIGURATIONS[run])
    credentials = ["-u", "cassandra", "-pw", "cassandra"]
    answers = performed(run, ("127.0.0.1", server.port), lambda *words: server.nodetool(*credentials, *words))
    recorded = json.loads(RECORDED.read_text())[run]
    assert [step for step, _ in recorded] == [list(step) for step in RUNS[run]]
    different = []
    for (step, theirs), ours in zip(recorded, answers):
        words = " ".join(step[1:]) if step[0] == "$" else step[2]
        expected = DIFFERENT.get(words, theirs)
        if comparable(step, ours) != comparable(step, expected):
            different.append({"step": step, "ours": ours, "expected": expected})
    assert not different, json.dumps(different, indent=1)


def test_accesses_are_counted_for_prometheus(serve):
    server = serve(AUTHENTICATED + CONFIGURATIONS["enforced"])
    performed("monitored", ("127.0.0.1", server.port),
              lambda *words: server.nodetool("-u", "cassandra", "-pw", "cassandra", *words))
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin_port}/metrics")
    request.add_header("Authorization", f"Basic {base64.b64encode(b'cassandra:cassandra').decode()}")
    with urllib.request.urlopen(request) as answer:
        lines = answer.read().decode().splitlines()
    for line in [
        'cassette_cidr_accesses_accepted_total{cidr_group="g2"} 1',
        'cassette_cidr_accesses_rejected_total{cidr_group="g1"} 3',
        'cassette_cidr_accesses_rejected_total{cidr_group="Undefined"} 1',
        "cassette_cidr_group_reloads_total 2",
    ]:
        assert line in lines
    assert any(line.startswith("cassette_cidr_check_seconds_count ") for line in lines)
