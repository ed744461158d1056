"""Answers as they came over the wire: rows of bytes, errors with code and text."""

import re

from cassandra import AlreadyExists
from cassandra.protocol import ProtocolHandler, ResultMessage, read_int, read_value


class RawResult(ResultMessage):
    """A rows result whose values are not decoded."""

    def recv_results_rows(self, f, protocol_version, user_type_map, result_metadata, column_encryption_policy):
        self.recv_results_metadata(f, user_type_map)
        metadata = self.column_metadata or result_metadata
        count = read_int(f)
        self.column_names = [column[2] for column in metadata]
        self.column_types = [column[3] for column in metadata]
        self.parsed_rows = [[read_value(f) for _ in metadata] for _ in range(count)]


class RawHandler(ProtocolHandler):
    message_types_by_opcode = {
        **ProtocolHandler.message_types_by_opcode,
        RawResult.opcode: RawResult,
    }


def answer(session, statement):
    """What the server says to `statement`, as plain data that JSON can hold."""
    future = session.execute_async(statement)
    try:
        result = future.result()
    except Exception as error:  # noqa: BLE001 - whatever the driver makes of it is the answer
        return refusal(error)
    out = {}
    if future.warnings:
        out["warnings"] = list(future.warnings)
    if result.column_names:
        out["columns"] = [
            f"{name} {kind.cql_parameterized_type()}" for name, kind in zip(result.column_names, result.column_types)
        ]
        out["rows"] = [[None if value is None else value.hex() for value in row] for row in result]
    return out


def refusal(error):
    """The code and the text of an error, out of whatever the driver made of it."""
    found = re.search(r'code=([0-9a-f]{4}) \[[^\]]*\] message="(.*)">?$', str(error), re.DOTALL)
    if found:
        return {"error": found[1], "message": found[2]}
    if isinstance(error, AlreadyExists):
        return {"error": "2400", "keyspace": error.keyspace, "table": error.table}
    return {"error": type(error).__name__, "message": str(error)}
