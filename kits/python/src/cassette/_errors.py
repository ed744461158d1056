"""The exceptions of the DB-API (PEP 249)."""

from __future__ import annotations


class Warning(Exception):  # noqa: A001
    """An important warning. Not raised."""


class Error(Exception):
    """The base of all errors of embedded databases.

    code: the code of Cassandra's native protocol, such as 0x2200; None if the call did not reach the database.
    kind: the kind of the error in the library, such as "AlreadyExists"; None likewise.
    line, column: the place of a syntax error in the statement, from 1.
    """

    def __init__(
        self,
        message: str = "",
        code: int | None = None,
        kind: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.kind = kind
        self.line = line
        self.column = column


class InterfaceError(Error):
    """The call is wrong: a connection or a cursor that was closed, rows of a statement without rows."""


class DatabaseError(Error):
    """The database failed."""


class DataError(DatabaseError):
    """A value does not fit the type of its column."""


class OperationalError(DatabaseError):
    """The disk, a lock, a limit, or a timeout: not the fault of the statement."""


class IntegrityError(DatabaseError):
    """Not raised: CQL has no constraints."""


class InternalError(DatabaseError):
    """A fault of the database. Please report it."""


class ProgrammingError(DatabaseError):
    """The statement or its values are wrong."""


class NotSupportedError(DatabaseError):
    """The database does not support the call, such as `rollback`."""
