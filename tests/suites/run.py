#!/usr/bin/env python3
"""The integration suites of drivers on Apache Cassandra and on Cassette: what passes on one and fails on the other.

    tests/suites/run.py [gocql] [gocql-integration] [cqlengine] [python]

All suites without arguments. Each server in turn listens on 127.0.0.1:9042, where the suites expect one. They are
fetched once, into .cache/suites: gocql from Go's module proxy, the tests of the Python driver from GitHub
(PYTHON_DRIVER=directory copies them from a checkout). Tests that start nodes themselves fail on both.
CASSETTE_BINARY is target/release/cassette unless it is set.

Prints a table in Markdown, and the tests that only Cassandra passes, with their reasons. Ends with an error if one
has no known reason.
"""

import re
import sys
from collections import Counter

import servers
from suites import SUITES

#: Differences that stay, by what the output of a test or its name says.
REASONS = {
    r"language 'java' are not supported": "functions in Java",
    r"system_schema keyspace is not user-modifiable": "a write to `system_schema`",
    r"::test_token_map\b": "more than one token of a node without others",
    r"explicitly set client protocol_version 6\b": "version 6 of the protocol, a beta",
}
SHOWN_LINES = 12


def progress(text):
    print(f"# {text}", file=sys.stderr, flush=True)


def reason_of(name, outcomes):
    """Returns why a test fails, as far as it is known. A subtest that did not run has the reason of its test."""
    test = name.split("/")[0]
    related = [other for other in outcomes if other == test or other.startswith(f"{test}/")]
    said = "\n".join([name, *(outcomes[other].output for other in related)])
    return next((reason for pattern, reason in REASONS.items() if re.search(pattern, said)), None)


def compared(theirs, ours):
    """Returns the reasons of the tests that only Cassandra passes, and those without one."""
    reasons, unknown = Counter(), []
    for name in sorted(theirs):
        if theirs[name].result != "passed" or name in ours and ours[name].result == "passed":
            continue
        reason = reason_of(name, ours)
        if reason:
            reasons[reason] += 1
        else:
            unknown.append(name)
    return reasons, unknown


def passed(outcomes):
    return sum(outcome.result == "passed" for outcome in outcomes.values())


def outcomes_of(server, chosen):
    found = {}
    with server():
        for key in chosen:
            progress(f"{SUITES[key].name} on {server.__name__}")
            found[key] = SUITES[key].run()
    return found


def main():
    chosen = sys.argv[1:] or list(SUITES)
    if wrong := [key for key in chosen if key not in SUITES]:
        sys.exit(f"expected suites of {', '.join(SUITES)}; found {', '.join(wrong)}")
    for key in chosen:
        progress(f"fetches {SUITES[key].name}")
        SUITES[key].fetch()
    theirs, ours = outcomes_of(servers.cassandra, chosen), outcomes_of(servers.cassette, chosen)
    print("| suite | Cassandra | Cassette | passed by Cassandra only |\n| --- | ---: | ---: | --- |")
    unexplained = []
    for key in chosen:
        reasons, unknown = compared(theirs[key], ours[key])
        listed = [f"{count}: {reason}" for reason, count in reasons.most_common()]
        listed += [f"{len(unknown)} without a known reason"] if unknown else []
        print(f"| {SUITES[key].name} | {passed(theirs[key])} | {passed(ours[key])} | {'; '.join(listed) or 'none'} |")
        unexplained += [(key, name) for name in unknown]
        if not passed(theirs[key]):
            outputs = [outcome.output for outcome in theirs[key].values() if outcome.result == "failed"]
            sys.exit(f"{key}: Cassandra passes no test:\n{''.join(outputs[:1])[-2000:]}")
    for key, name in unexplained:
        outcome = ours[key].get(name)
        said = outcome.output.splitlines()[-SHOWN_LINES:] if outcome else ["it did not run"]
        print(f"\n{key}: {name}\n  " + "\n  ".join(said))
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
