"""Random statements with the answers of Apache Cassandra, for `crates/database/tests/conformance/main.rs`.

    python record.py --cassandra 127.0.0.2:9042 --seed 1 --cases 100 --output ../conformance/random.txt

A case is the statements of a seed (`grammar.py`), up to the first that Cassandra fails with a server error, or, with
--cassette, that both servers answer differently, which is printed. Left out are
queries without rows and errors that occurred often before, since they say little more. The format of the file:

    # SEED                      begins a case: a new keyspace
    STATEMENT                   on one line
    <tab>!CODE MESSAGE          the error
    <tab>*WARNING
    <tab>:NAME TYPE<tab>…       the columns
    <tab>=HEX<tab>…             a row; null is `-`
    <tab>?0,1<tab>NAME TYPE<tab>…  the markers of a statement with values, after the places of the partition key among them
"""

import argparse
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

from compare import connect, is_failure, normal
from grammar import Grammar
from raw import answer

KEYSPACE = "conformance"
#: How often an error of the same kind is recorded, and how often an empty result of the same shape.
REPEATS = 12
#: What messages about invalid JSON contain.
UNDECODED = re.compile("decode|decoding")
#: Answers that depend on the clock or on random numbers.
VOLATILE = re.compile(r"\b(ttl|now|current_\w+|uuid)\s*\(|TTL \d", re.IGNORECASE)


def kind(found):
    """What answers of the same kind have in common."""
    if "error" in found:
        return found["error"] + re.sub(r"[^ ]*\d[^ ]*|'[^']*'|\"[^\"]*\"|[\w.]+<[^ ]*", "",
            found.get("message", ""))[:60]
    if "rows" in found and not found["rows"]:
        return "empty " + re.sub(r"\b\w\d?\b", "", ",".join(found["columns"]))
    return None


def lines(statement, found):
    yield statement
    if "error" in found:
        text = found["message"] if "message" in found else f"{found['keyspace']}.{found['table']}"
        yield f"\t!{found['error']} {text}"
    for warning in found.get("warnings", []):
        yield "\t*" + warning.replace("\n", "\\n")
    if "columns" in found:
        yield "\t:" + "\t".join(found["columns"])
        for row in found["rows"]:
            yield "\t=" + "\t".join("-" if value is None else value for value in row)
    if "markers" in found:
        yield "\t?" + "\t".join([",".join(map(str, found["markers"]["key"])), *found["markers"]["columns"]])


def begin(session):
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    session.set_keyspace(KEYSPACE)


def case(cassandra, cassette, seed, count, seen):
    """The lines of a case."""
    grammar = Grammar(random.Random(seed), KEYSPACE)
    begin(cassandra)
    if cassette:
        begin(cassette)
    statements = list(grammar.schema())
    for at in range(len(statements) + count):
        statement = statements[at] if at < len(statements) else grammar.statement()
        is_read = statement.startswith(("SELECT", "DESCRIBE"))
        if VOLATILE.search(statement):
            # Later answers would depend on more than the statements.
            if is_read:
                continue
            return
        found = answer(cassandra, statement)
        if is_failure(found):
            if is_read:
                continue
            return
        ours = answer(cassette, statement) if cassette else found
        if is_read and normal(ours, statement) != normal(found, statement):
            # Cassandra builds indexes and views in the background.
            time.sleep(1)
            found, ours = answer(cassandra, statement), answer(cassette, statement)
        if normal(ours, statement) != normal(found, statement):
            print(f"seed {seed}: {statement}\n  ours      {ours}\n  Cassandra {found}", flush=True)
            if is_read:
                continue
            return
        same = kind(found)
        seen[same] += 1
        is_told_enough = bool(same) and seen[same] > REPEATS
        # The texts of JSON's errors are those of the parser.
        if not (is_told_enough or "\n" in found.get("message", "") or UNDECODED.search(found.get("message", ""))):
            yield from lines(statement, found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cassandra", required=True, metavar="HOST:PORT")
    parser.add_argument("--cassette", metavar="HOST:PORT", help="a server to compare with")
    parser.add_argument("--seed", type=int, default=1, help="of the first case; others count on")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--statements", type=int, default=60, help="of a case")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    cassandra = connect(arguments.cassandra)
    cassette = connect(arguments.cassette) if arguments.cassette else None
    seen, recorded = Counter(), 0
    with arguments.output.open("w") as output:
        for seed in range(arguments.seed, arguments.seed + arguments.cases):
            output.write(f"# {seed}\n")
            for line in case(cassandra, cassette, seed, arguments.statements, seen):
                output.write(line + "\n")
                recorded += not line.startswith("\t")
    for session in filter(None, (cassandra, cassette)):
        session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
        session.cluster.shutdown()
    print(f"{recorded} statements")


if __name__ == "__main__":
    sys.exit(main())
