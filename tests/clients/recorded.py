"""Statements of files, and their answers beside recorded ones."""

import re


def paragraphs(path):
    """The statements of a file, one a paragraph, without comments."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def check(compared, kept):
    """Fails with the differences among `compared`, triples of a statement, our answer and Cassandra's.

    `kept` has the answers that differ and stay, by statement; one that has become equal must be taken out of it.
    """
    wrong = []
    for statement, ours, theirs in compared:
        if statement in kept:
            if ours == theirs:
                wrong.append(f"{statement}\n  no longer differs: take it out of differences.json")
            elif ours != kept[statement]["answer"]:
                wrong.append(f"{statement}\n  ours     {ours}\n  accepted {kept[statement]['answer']}")
        elif ours != theirs:
            wrong.append(f"{statement}\n  ours      {ours}\n  Cassandra {theirs}")
    assert not wrong, f"{len(wrong)} of {len(compared)} answers differ:\n" + "\n".join(wrong)
