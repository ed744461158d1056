"""User-defined functions and aggregates, as Cassandra 5.0.8 answers.

`tests/conformance/functions/NAME.cql` holds statements with bodies in Java, one a paragraph; `bodies.json` the same
bodies in Lua. To write down the answers again, start a Cassandra with `user_defined_functions_enabled: true`:
CASSETTE_CONTACT=127.0.0.1:9042 pytest --record test_functions.py
"""

import json
import os
import re
from pathlib import Path

import pytest

from conftest import connect
from raw import RawHandler, answer
from recorded import check, paragraphs
from server import Server

FOLDER = Path(__file__).resolve().parents[1] / "conformance" / "functions"
KEYSPACE = "conformance"
BODIES = json.loads((FOLDER / "bodies.json").read_text())


@pytest.fixture(scope="module")
def contact_with_functions(tmp_path_factory):
    if "CASSETTE_CONTACT" in os.environ:
        host, port = os.environ["CASSETTE_CONTACT"].rsplit(":", 1)
        yield host, int(port)
        return
    folder = tmp_path_factory.mktemp("functions")
    (folder / "cassandra.yaml").write_text("user_defined_functions_enabled: true\n")
    server = Server(folder / "data", "--admin", "off", "--config", folder / "cassandra.yaml").start()
    yield "127.0.0.1", server.port
    server.stop()


def in_lua(statement):
    found = re.fullmatch(r"(.*) LANGUAGE java AS '(.*)'", statement, re.DOTALL)
    if not found:
        return statement
    body = BODIES[found[2]].replace("'", "''")
    return f"{found[1]} LANGUAGE lua AS '{body}'"


def described(language, body):
    return f"LANGUAGE {language}\n    AS $${body}$$".encode().hex()


def in_java(found):
    """An answer with the bodies that the statements have, and without the reasons of failures."""

    def cell(value):
        if value is None:
            return None
        for java, lua in BODIES.items():
            if value == lua.encode().hex():
                return java.encode().hex()
            value = value.replace(described("lua", lua), described("java", java))
        return b"java".hex() if value == b"lua".hex() else value

    found = dict(found)
    if "rows" in found:
        found["rows"] = [[cell(value) for value in row] for row in found["rows"]]
    return without_reason(found)


def without_reason(found):
    message = found.get("message", "")
    if found.get("error") == "1400":
        return {**found, "message": ""}
    of_compiler = " source compilation failed:"
    if of_compiler in message:
        return {**found, "message": of_compiler}
    listed = re.fullmatch(r"(.*signatures: )(.*?)(\)(?:: use type casts.*)?)", message, re.DOTALL)
    if listed:
        functions = sorted(re.split(r", (?=system\.|conformance\.)", listed[2]))
        return {**found, "message": listed[1] + ", ".join(functions) + listed[3]}
    return found


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.cql")), ids=lambda path: path.stem)
def test_functions_answer_as_those_of_cassandra(path, contact_with_functions, request):
    recording = request.config.getoption("--record")
    with connect(*contact_with_functions) as cluster:
        session = cluster.connect()
        session.client_protocol_handler = RawHandler
        for keyspace in [KEYSPACE, "other_functions"]:
            session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")
        session.execute(
            f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )
        session.set_keyspace(KEYSPACE)
        statements = paragraphs(path)
        answers = [answer(session, s if recording else in_lua(s)) for s in statements]
        session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    recorded = path.with_suffix(".json")
    if recording:
        entries = [{"statement": s, "answer": a} for s, a in zip(statements, answers)]
        recorded.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
        return
    expected = json.loads(recorded.read_text())
    assert [e["statement"] for e in expected] == statements, "record the answers again"
    kept = json.loads((FOLDER / "differences.json").read_text()).get(path.stem, {})
    pairs = zip(expected, answers)
    check([(entry["statement"], in_java(ours), without_reason(entry["answer"])) for entry, ours in pairs], kept)
