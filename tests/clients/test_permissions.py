"""Every kind of statement with every permission, direct and by another role, as Cassandra 5.0.8 answers.

`pytest test_permissions.py --record` writes down the answers of the server at CASSETTE_CONTACT, a Cassandra with
PasswordAuthenticator, CassandraAuthorizer, and validities of caches of 0ms.
"""

import json
import os
from pathlib import Path

import pytest
from cassandra import Unauthorized
from cassandra.auth import PlainTextAuthProvider

from conftest import connect
from server import Server

RECORDED = Path(__file__).parents[1] / "conformance" / "permissions.json"
REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}"

# They have no lasting effect where they are permitted: most fail then, since what they are about exists or does not.
STATEMENTS = [
    "SELECT * FROM pm.t",
    "SELECT * FROM pm.mv",
    "SELECT * FROM pm.plain",
    "SELECT * FROM pm2.t",
    "SELECT role FROM system_auth.roles",
    "SELECT name FROM system_views.settings",
    "SELECT key FROM system.local",
    "SELECT table_name FROM system_schema.tables",
    "SELECT keyspace_name FROM system.built_views",
    "INSERT INTO system_auth.role_members (role, member) VALUES ('pm_x', 'pm_y')",
    "INSERT INTO system_traces.sessions (session_id) VALUES (50554d6e-29bb-11e5-b345-feff819cdc9f)",
    "INSERT INTO pm.plain (k, v) VALUES (1, 1)",
    "INSERT INTO pm.t (k, v) VALUES (1, 1)",
    "UPDATE pm.plain SET v = 2 WHERE k = 1 IF v = 3",
    "DELETE FROM pm.plain WHERE k = 1",
    "UPDATE pm.c SET v = v + 1 WHERE k = 1",
    "BEGIN BATCH INSERT INTO pm.plain (k) VALUES (1); INSERT INTO pm2.t (k) VALUES (1); APPLY BATCH",
    "TRUNCATE pm.plain",
    "USE pm",
    "DESCRIBE TABLE pm.plain",
    f"CREATE KEYSPACE pm WITH replication = {REPLICATION}",
    "ALTER KEYSPACE pm WITH durable_writes = true",
    "ALTER KEYSPACE system_traces WITH durable_writes = true",
    "DROP KEYSPACE nosuch",
    "CREATE TABLE pm.t (k int PRIMARY KEY)",
    "ALTER TABLE pm.plain ADD v int",
    "DROP TABLE pm.nosuch",
    "CREATE TYPE pm.ty (a int)",
    "ALTER TYPE pm.ty ADD a int",
    "DROP TYPE pm.nosuch",
    "CREATE INDEX i ON pm.plain (v)",
    "DROP INDEX pm.nosuch",
    "CREATE MATERIALIZED VIEW pm.mv AS SELECT * FROM pm.t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
    "ALTER MATERIALIZED VIEW pm.mv WITH comment = ''",
    "DROP MATERIALIZED VIEW pm.nosuch",
    "CREATE ROLE pm_other",
    "CREATE ROLE pm_new WITH SUPERUSER = true",
    "ALTER ROLE pm_other WITH LOGIN = false",
    "ALTER ROLE pm_other WITH SUPERUSER = false",
    "ALTER ROLE pm_user WITH LOGIN = true",
    "DROP ROLE pm_nosuch",
    "DROP ROLE pm_user",
    "DROP ROLE pm_super",
    "GRANT pm_other TO pm_nosuch",
    "REVOKE pm_other FROM pm_nosuch",
    "GRANT SELECT ON pm.plain TO pm_super",
    "GRANT SELECT ON system_auth.roles TO pm_super",
    "REVOKE MODIFY ON KEYSPACE pm FROM pm_super",
    "GRANT DESCRIBE ON ROLE pm_other TO pm_super",
    "LIST ROLES OF pm_other",
    "LIST ALL PERMISSIONS OF pm_user",
    "LIST ALL PERMISSIONS OF pm_super",
    "LIST ALL PERMISSIONS OF pm_other",
    "LIST ALL PERMISSIONS",
]

DATA = ["CREATE", "ALTER", "DROP", "SELECT", "MODIFY", "AUTHORIZE", "UNMASK", "SELECT_MASKED"]
RESOURCES = {
    "ALL KEYSPACES": DATA,
    "KEYSPACE pm": DATA,
    "ALL TABLES IN KEYSPACE pm": DATA,
    "TABLE pm.t": DATA[1:],
    "TABLE pm.plain": DATA[1:],
    "TABLE pm.mv": ["SELECT", "MODIFY"],
    "KEYSPACE pm2": ["SELECT", "MODIFY"],
    "system_auth.roles": ["SELECT"],
    "KEYSPACE system_traces": ["ALTER", "SELECT"],
    "KEYSPACE system_auth": ["ALTER", "SELECT"],
    "ALL ROLES": ["CREATE", "ALTER", "DROP", "AUTHORIZE", "DESCRIBE"],
    "ROLE pm_other": ["ALTER", "DROP", "AUTHORIZE", "DESCRIBE"],
    "ALL FUNCTIONS": ["CREATE", "EXECUTE"],
    "ALL MBEANS": ["SELECT"],
}
GRANTS = [f"{permission} ON {resource}" for resource, permissions in RESOURCES.items() for permission in permissions]
GRANTS += ["SELECT, MODIFY ON KEYSPACE pm", "ALL ON ALL KEYSPACES", "AUTHORIZE, SELECT, DESCRIBE ON ALL KEYSPACES"]

SETUP = [
    f"CREATE KEYSPACE pm WITH replication = {REPLICATION}",
    f"CREATE KEYSPACE pm2 WITH replication = {REPLICATION}",
    "CREATE TABLE pm.t (k int PRIMARY KEY, v int)",
    "CREATE TABLE pm.plain (k int PRIMARY KEY, v int)",
    "CREATE TABLE pm.c (k int PRIMARY KEY, v counter)",
    "CREATE TABLE pm2.t (k int PRIMARY KEY)",
    "CREATE TYPE pm.ty (a int)",
    "CREATE INDEX i ON pm.plain (v)",
    "CREATE MATERIALIZED VIEW pm.mv AS SELECT * FROM pm.t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
    "CREATE ROLE pm_user WITH PASSWORD = 'pm_user' AND LOGIN = true",
    "CREATE ROLE pm_parent",
    "CREATE ROLE pm_grandparent",
    "CREATE ROLE pm_other",
    "CREATE ROLE pm_super WITH SUPERUSER = true",
    "GRANT pm_parent TO pm_user",
    "GRANT pm_grandparent TO pm_parent",
]


@pytest.fixture
def contact_with_roles(tmp_path):
    if "CASSETTE_CONTACT" in os.environ:
        host, port = os.environ["CASSETTE_CONTACT"].rsplit(":", 1)
        yield host, int(port)
        return
    (tmp_path / "cassandra.yaml").write_text(
        "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\nmaterialized_views_enabled: true\n"
    )
    server = Server(tmp_path / "data", "--admin", "off", "--config", tmp_path / "cassandra.yaml").start()
    yield "127.0.0.1", server.port
    server.stop()


def refusals(session):
    """For each statement the message of its Unauthorized error; empty where it is permitted."""
    found = []
    for statement in STATEMENTS:
        try:
            session.execute(statement)
            found.append("")
        except Unauthorized as error:
            found.append(str(error).split('message="', 1)[1].rstrip('">'))
        except Exception:  # noqa: BLE001 - it was permitted, and failed for another reason
            found.append("")
    return found


def matrix(root, user):
    """The refusals by grant and by the role that has it."""
    found = {"nothing": refusals(user)}
    for grant in GRANTS:
        for role in ["pm_user", "pm_parent", "pm_grandparent"]:
            root.execute(f"GRANT {grant} TO {role}")
            found[f"{grant} TO {role}"] = refusals(user)
            root.execute(f"REVOKE {grant} FROM {role}")
            # What the statements granted or revoked.
            root.execute("REVOKE SELECT ON pm.plain FROM pm_super")
            root.execute("REVOKE SELECT ON system_auth.roles FROM pm_super")
            root.execute("REVOKE DESCRIBE ON ROLE pm_other FROM pm_super")
    root.execute("GRANT pm_super TO pm_parent")
    found["a superuser role"] = refusals(user)
    return found


def test_permissions_are_those_of_cassandra(contact_with_roles, request):
    def login(role):
        return connect(*contact_with_roles, auth_provider=PlainTextAuthProvider(role, role))

    with login("cassandra") as cluster:
        root = cluster.connect()
        for statement in SETUP:
            root.execute(statement)
        with login("pm_user") as cluster_of_user:
            found = matrix(root, cluster_of_user.connect())
    messages = sorted({message for refused in found.values() for message in refused})
    table = {grant: [messages.index(message) for message in refused] for grant, refused in found.items()}
    if request.config.getoption("--record"):
        rows = ",\n".join(f"  {json.dumps(grant)}: {json.dumps(refused)}" for grant, refused in table.items())
        text = json.dumps({"statements": STATEMENTS, "messages": messages}, indent=1)
        RECORDED.write_text(text.rstrip("\n}") + ',\n "table": {\n' + rows + "\n }\n}\n")
        return
    recorded = json.loads(RECORDED.read_text())
    assert recorded["statements"] == STATEMENTS, "record the answers again"
    assert list(recorded["table"]) == list(found), "record the answers again"
    differing = [
        f"{grant}: {statement}\n  ours      {ours or 'permitted'}\n  Cassandra {theirs or 'permitted'}"
        for grant, refused in recorded["table"].items()
        for statement, ours, number in zip(STATEMENTS, found[grant], refused)
        if ours != (theirs := recorded["messages"][number])
    ]
    assert not differing, f"{len(differing)} answers differ:\n" + "\n".join(differing[:20])
