"""The same statements, judged beside Apache Cassandra.

`tests/conformance/NAME.cql` holds statements, one a paragraph; `NAME.json` what Cassandra 5.0.8 answered to each: columns with types and
rows as bytes, or the error's code and text. `differences.json` lists by statement the answers of ours that differ and stay, each with its reason;
one that has become equal must be taken out of it.

To write down the answers anew, against a real Cassandra: CASSETTE_CONTACT=127.0.0.1:9042 pytest --record test_conformance.py
"""

import json
import re
from pathlib import Path

import pytest

from raw import RawHandler, answer
from recorded import check, paragraphs

FOLDER = Path(__file__).resolve().parents[1] / "conformance"
KEYSPACE = "conformance"


def differences():
    return json.loads((FOLDER / "differences.json").read_text())


def in_order(answer):
    """The answer with the functions that its message enumerates in order: Cassandra takes them from a hash map."""
    found = re.fullmatch(r"(.*signatures: )(.*?)(\)(?:: use type casts.*)?)", answer.get("message", ""), re.DOTALL)
    if not found:
        return answer
    before, listed, after = found.groups()
    functions = sorted("system." + function for function in listed.removeprefix("system.").split(", system."))
    return {**answer, "message": before + ", ".join(functions) + after}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.cql")), ids=lambda path: path.stem)
def test_answers_are_those_of_cassandra(path, cluster, request):
    session = cluster.connect()
    session.client_protocol_handler = RawHandler
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(
        f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )
    session.set_keyspace(KEYSPACE)
    answers = [{"statement": s, "answer": answer(session, s)} for s in paragraphs(path)]
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.shutdown()

    recorded = path.with_suffix(".json")
    if request.config.getoption("--record"):
        recorded.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
        return
    expected = json.loads(recorded.read_text())
    assert [e["statement"] for e in expected] == [a["statement"] for a in answers], "record the answers anew"
    compared = [
        (ours["statement"], in_order(ours["answer"]), in_order(theirs["answer"])) for ours, theirs in zip(answers, expected)
    ]
    check(compared, differences().get(path.stem, {}))
