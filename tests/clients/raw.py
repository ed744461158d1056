"""Answers as they came over the wire: rows of bytes, errors with code and text."""

import re

from cassandra import AlreadyExists
from cassandra.protocol import ProtocolHandler, ResultMessage, read_int, read_value
from cassandra.query import UNSET_VALUE, BoundStatement, SimpleStatement

#: How a statement is executed, as a comment at its end: `/* pages of 2, bind 00000001, null, unset, empty */`.
HOW = re.compile(r" /\* (?:pages of (\d+))?(?:, )?(?:bind ([\w, ]+))? \*/$")
#: The rows of a page where a statement does not say it.
PAGE = 5000


class Indexes(list):
    """The places of the partition key among the markers; the driver guesses those that the server does not tell."""

    def __bool__(self):
        return True


class RawResult(ResultMessage):
    """A rows result whose values are not decoded."""

    def recv_results_rows(self, f, protocol_version, user_type_map, result_metadata, column_encryption_policy):
        self.recv_results_metadata(f, user_type_map)
        metadata = self.column_metadata or result_metadata
        count = read_int(f)
        self.column_names = [column[2] for column in metadata]
        self.column_types = [column[3] for column in metadata]
        self.parsed_rows = [[read_value(f) for _ in metadata] for _ in range(count)]


def prepared(session, text):
    """The prepared statement, with the places of the partition key as the server tells them."""
    received = ResultMessage.recv_prepared_metadata

    def receive(self, *arguments):
        received(self, *arguments)
        if self.pk_indexes is not None:
            self.pk_indexes = Indexes(self.pk_indexes)

    # A session prepares statements without its handler. Other sessions of the process keep the driver's class.
    ResultMessage.recv_prepared_metadata = receive
    try:
        return session.prepare(text)
    finally:
        ResultMessage.recv_prepared_metadata = received


class RawHandler(ProtocolHandler):
    message_types_by_opcode = {
        **ProtocolHandler.message_types_by_opcode,
        RawResult.opcode: RawResult,
    }


def answer(session, statement):
    """What the server says to `statement`, as plain data that JSON can hold."""
    try:
        executed = executable(session, statement)
        future = session.execute_async(executed)
        result = future.result()
        warnings = list(future.warnings or [])
        # Also those of later pages.
        rows = list(result) if result.column_names else []
    except Exception as error:  # noqa: BLE001 - whatever the driver makes of it is the answer
        return refusal(error)
    out = {}
    if isinstance(executed, BoundStatement):
        out["markers"] = markers(executed.prepared_statement)
    if warnings:
        out["warnings"] = warnings
    if result.column_names:
        out["columns"] = [
            f"{name} {kind.cql_parameterized_type()}" for name, kind in zip(result.column_names, result.column_types)
        ]
        out["rows"] = [[None if value is None else value.hex() for value in row] for row in rows]
    return out


def markers(prepared):
    """The markers of a prepared statement, and which of them are the partition key."""
    specs = [f"{column.name} {column.type.cql_parameterized_type()}" for column in prepared.column_metadata]
    return {"columns": specs, "key": list(prepared.routing_key_indexes)}


def executable(session, statement):
    """The statement, prepared where it has values, with its page size."""
    how = HOW.search(statement)
    if not how:
        return SimpleStatement(statement, fetch_size=PAGE)
    text, page = statement[: how.start()], int(how[1] or PAGE)
    if not how[2]:
        return SimpleStatement(text, fetch_size=page)
    bound = BoundStatement(prepared(session, text), fetch_size=page)
    values = {"null": None, "unset": UNSET_VALUE, "empty": b""}
    bound.values = [values[value] if value in values else bytes.fromhex(value) for value in how[2].split(", ")]
    return bound


def refusal(error):
    """The code and the text of an error, out of whatever the driver made of it."""
    found = re.search(r'code=([0-9a-f]{4}) \[[^\]]*\] message="(.*)">?$', str(error), re.DOTALL)
    if found:
        return {"error": found[1], "message": found[2]}
    if isinstance(error, AlreadyExists):
        return {"error": "2400", "keyspace": error.keyspace, "table": error.table}
    return {"error": type(error).__name__, "message": str(error)}
