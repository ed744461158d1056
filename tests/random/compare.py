"""Random statements on Cassette and on Apache Cassandra: compares the answers, shrinks what differs, and stores it.

    python compare.py --cassette 127.0.0.1:9042 --cassandra 127.0.0.2:9042 --seed 1 --cases 100 --store found

Each case has a keyspace of its own, a random schema and random statements (`grammar.py`), all from its seed. Of a case whose
answers differ, the statements are removed that the first difference does not need. What remains is stored as
`found/SEED.cql`, in the form of `tests/conformance`: move it there and record the answers of Cassandra.
A comment at the end of a statement contains the rows of a page and the values of its markers (`raw.py`). Of statements
with values, the descriptions of the markers are compared, too.

Statements that Cassandra fails with a server error are not compared.
"""

import argparse
import random
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients"))

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable  # noqa: E402
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy  # noqa: E402
from cassandra.query import tuple_factory  # noqa: E402
from grammar import Grammar  # noqa: E402
from raw import RawHandler, answer  # noqa: E402

KEYSPACE = "random_statements"
#: The columns of a relation of several columns.
TUPLE = re.compile(r"(?<!\w)\((\w+(?:, \w+)+)\) (?:[<>]=?|=|IN) ")
#: What the errors of relations that contradict each other have in common.
CONTRADICTIONS = re.compile(
    "cannot be restricted by (?:more than one relation|both an equality|two inequalities)|More than one restriction was found"
)
#: Changes of several columns, of which Cassandra reports any.
SEVERAL_COLUMNS = re.compile(r"^ALTER TABLE .*( RENAME .* AND | DROP .*\()")
#: What Cassandra calls the type of some results.
LEGACY = "'org.apache.cassandra.db.marshal.LegacyTimeUUIDType'"


def connect(contact):
    host, port = contact.rsplit(":", 1)
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(),
        row_factory=tuple_factory,
        request_timeout=60,
        retry_policy=FallthroughRetryPolicy(),
    )
    cluster = Cluster([host], port=int(port), execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        schema_metadata_enabled=False)
    session = cluster.connect()
    session.client_protocol_handler = RawHandler
    return session


def dropped(session, keyspace, tries=20):
    """Drops the keyspace, also if the driver has to connect again: it does after an error in the protocol."""
    for left in reversed(range(tries)):
        try:
            session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")
            return
        except NoHostAvailable:
            if not left:
                raise
            time.sleep(0.5)


class Pair:
    """Both servers."""

    def __init__(self, cassette, cassandra, keyspace):
        self.sessions, self.keyspace = [connect(cassette), connect(cassandra)], keyspace

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for session in self.sessions:
            dropped(session, self.keyspace)
            session.cluster.shutdown()

    def begin(self):
        for session in self.sessions:
            dropped(session, self.keyspace)
            session.execute(
                f"CREATE KEYSPACE {self.keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            )
            session.set_keyspace(self.keyspace)

    def answers(self, statement):
        return [normal(answer(session, statement), statement) for session in self.sessions]

    def first_difference(self, statements):
        """(index, our answer, Cassandra's) of the first statement whose answers differ."""
        self.begin()
        for index, statement in enumerate(statements):
            ours, theirs = self.answers(statement)
            if ours == theirs:
                continue
            if not is_failure(theirs):
                return index, ours, theirs
            if not statement.startswith("SELECT"):
                # It may have been applied in part.
                return None
        return None


def contradicts_several(statement):
    """Whether a relation of several columns meets more than one other relation: Cassandra reports any of them."""
    tuples = [columns.split(", ") for columns in TUPLE.findall(statement)]
    met = lambda name: re.search(rf"(?<![\w(]){name} (?:[<>]=?|=|IN|CONTAINS|LIKE) ", statement)  # noqa: E731
    return len(tuples) > 1 or any(sum(bool(met(name)) for name in columns) > 1 for columns in tuples)


def normal(found, statement=""):
    """The answer without what may differ: the order of functions that a message enumerates, positions in JSON, which of
    several contradictions or renamed columns an error reports, and what `normal_rows` removes."""
    message = found.get("message", "")
    if CONTRADICTIONS.search(message) and contradicts_several(statement):
        return {**found, "message": "a contradiction"}
    if "signatures: " in message:
        before, listed = message.split("signatures: ", 1)
        functions = re.findall(r"system\.\S+ : \([^()]*(?:\([^()]*\)[^()]*)*\) -> [^,:)]+", listed)
        return {**found, "message": before + ", ".join(sorted(functions))}
    if "Error decoding JSON" in message or "decode JSON" in message:
        return {**found, "message": "JSON"}
    if SEVERAL_COLUMNS.search(statement) and re.search("rename|drop", message):
        return {**found, "message": "one of several columns"}
    if "columns" in found:
        return {**found, **normal_rows(found["columns"], found["rows"])}
    return found


def normal_rows(columns, rows):
    """Columns and rows without Cassandra's name of a type, and without timestamps that are those of the clock."""
    times = [at for at, column in enumerate(columns) if "writetime(" in column]
    if times:
        clock = lambda value: "now" if value and len(value) == 16 and value > "0000ffff" else value  # noqa: E731
        rows = [[clock(value) if at in times else value for at, value in enumerate(row)] for row in rows]
    return {"columns": [column.replace(LEGACY, "timeuuid") for column in columns], "rows": rows}


def is_failure(found):
    """Whether Cassandra did not answer: an exception of Java, an index that is not built yet, or its own paging state."""
    message = found.get("message", "")
    return (
        found.get("error") in ("0000", "NoHostAvailable", "ReadFailure", "WriteFailure", "OperationTimedOut", "ServerError")
        or "java." in message
        or "Invalid value for the paging state" in message
    )


def shrink(pair, statements, limit=150):
    """The statements that the difference of the last one needs, by removing ever smaller parts."""
    size, tries = len(statements) // 2, 0
    while size and tries < limit:
        at, removed = 0, False
        while at < len(statements) - 1 and tries < limit:
            without = statements[:at] + statements[min(at + size, len(statements) - 1) :]
            found = pair.first_difference(without)
            tries += 1
            if found and found[0] == len(without) - 1:
                statements, removed = without, True
            else:
                at += size
        if not removed or size > 1:
            size //= 2
    return statements


def run(pair, seed, count):
    """The statements of a case up to the first difference, or None."""
    grammar = Grammar(random.Random(seed), pair.keyspace)
    pair.begin()
    done = []

    def statements_of():
        yield from grammar.schema()
        for _ in range(count):
            yield grammar.statement()

    for statement in statements_of():
        done.append(statement)
        ours, theirs = pair.answers(statement)
        if ours == theirs:
            continue
        if not is_failure(theirs):
            return done
        if not statement.startswith("SELECT"):
            return None
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cassette", required=True, metavar="HOST:PORT")
    parser.add_argument("--cassandra", required=True, metavar="HOST:PORT")
    parser.add_argument("--seed", type=int, default=1, help="of the first case; others count on")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--statements", type=int, default=60, help="of a case")
    parser.add_argument("--store", type=Path, help="a directory for what differs")
    parser.add_argument("--keyspace", default=KEYSPACE, help="is dropped on both")
    arguments = parser.parse_args()
    different = 0
    with Pair(arguments.cassette, arguments.cassandra, arguments.keyspace) as pair:
        for seed in range(arguments.seed, arguments.seed + arguments.cases):
            statements = run(pair, seed, arguments.statements)
            if not statements:
                continue
            statements = shrink(pair, statements)
            found = pair.first_difference(statements)
            if not found:
                print(f"seed {seed}: a difference that did not occur again: {statements[-1]}")
                continue
            different += 1
            _, ours, theirs = found
            print(f"seed {seed}\n" + "\n".join(f"    {s}"
                for s in statements) + f"\n  ours      {ours}\n  Cassandra {theirs}", flush=True)
            if arguments.store:
                arguments.store.mkdir(parents=True, exist_ok=True)
                text = "\n\n".join([f"-- Found by tests/random with seed {seed}.", *statements]) + "\n"
                (arguments.store / f"{seed}.cql").write_text(text)
    print(f"{different} of {arguments.cases} cases differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
