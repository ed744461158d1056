"""Embedded databases by the DB-API (PEP 249)."""

from __future__ import annotations

import os
from collections import deque, namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Union

from cassette._errors import InterfaceError, NotSupportedError

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from cassette import _embedded

#: Values of markers: by position, or by name.
Parameters = Union[Sequence[Any], Mapping[str, Any]]
#: Makes a row of the names of its columns and its values.
RowFactory = Callable[[Sequence[str], tuple[Any, ...]], Any]

#: How many rows are converted at once.
_CHUNK = 1000
#: How many rows a page has at most; it ends early after 1 MiB.
_PAGE_SIZE = 5000


def connect(
    database: str | os.PathLike[str],
    *,
    keyspace: str | None = None,
    read_only: bool = False,
    options: Mapping[str, str | int | bool] | None = None,
) -> Connection:
    """Opens the database of a directory, which is created if it does not exist, or an empty one for ":memory:".

    keyspace: the keyspace of names without one.
    read_only: opens a directory or a snapshot without writing to it.
    options: settings by their names in cassandra.yaml, with sizes in bytes, such as `{"commitlog_sync": "batch"}`,
        and `seed`, a number that makes UUIDs and times the same in each run.

    Raises OperationalError if another process has the directory open.
    """
    try:
        from cassette import _embedded
    except ImportError as error:
        raise ImportError(
            "this installation of cassette-db has no embedded database: install a wheel for this platform, "
            "or build one with `make kits`"
        ) from error
    path = os.fspath(database)
    if not path:
        raise InterfaceError('expected the path of a directory or ":memory:", found an empty text')
    settings = [(name, _setting(value)) for name, value in (options or {}).items()]
    if read_only:
        if path == ":memory:" or settings:
            raise InterfaceError("expected a directory without options to read, found :memory: or options")
        opened = _embedded.Database.open_read_only(path)
    else:
        opened = _embedded.Database.open(None if path == ":memory:" else path, settings)
    connection = Connection(opened)
    if keyspace is not None:
        quoted = keyspace.replace('"', '""')
        try:
            connection.execute(f'USE "{quoted}"')
        except BaseException:
            connection.close()
            raise
    return connection


def _setting(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def tuple_factory(columns: Sequence[str], values: tuple[Any, ...]) -> Any:
    """Rows are tuples."""
    return values


def dict_factory(columns: Sequence[str], values: tuple[Any, ...]) -> Any:
    """Rows are dicts by the names of columns."""
    return dict(zip(columns, values))


def named_tuple_factory(columns: Sequence[str], values: tuple[Any, ...]) -> Any:
    """Rows are named tuples. Names that are no identifiers are replaced by their positions."""
    return _row_class(tuple(columns))._make(values)


@lru_cache(maxsize=256)
def _row_class(columns: tuple[str, ...]) -> Any:
    return namedtuple("Row", columns, rename=True)  # noqa: PYI024


class Connection:
    """A database of this process. Threads may share it; each should have its own cursor.

    Statements take effect when they are executed: there is no transaction to commit.
    """

    def __init__(self, database: _embedded.Database) -> None:
        self._database: _embedded.Database | None = database
        self._session = database.session()
        #: Makes the rows of new cursors.
        self.row_factory: RowFactory = tuple_factory

    def cursor(self) -> Cursor:
        """Returns a cursor, which executes statements and reads rows."""
        self._check_open()
        return Cursor(self)

    def execute(self, statement: str, parameters: Parameters | None = None) -> Cursor:
        """Executes a statement with a new cursor, and returns that."""
        return self.cursor().execute(statement, parameters)

    def executemany(self, statement: str, parameters: Iterable[Parameters]) -> Cursor:
        """Executes a statement for each of these values with a new cursor, and returns that."""
        return self.cursor().executemany(statement, parameters)

    @property
    def keyspace(self) -> str | None:
        """The keyspace of `USE`."""
        self._check_open()
        return self._session.keyspace

    def flush(self) -> None:
        """Writes memtables to SSTables, so that the next start has nothing to replay."""
        self._check_open().flush()

    def commit(self) -> None:
        """Does nothing: statements take effect when they are executed."""
        self._check_open()

    def rollback(self) -> None:
        """Raises NotSupportedError: statements take effect when they are executed."""
        raise NotSupportedError("statements take effect when they are executed: nothing can be rolled back")

    def close(self) -> None:
        """Closes the database. Does nothing if it is closed. Cursors cannot be used any more.

        A statement that another thread executes meanwhile takes effect as a whole, or raises an error.
        """
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def __enter__(self) -> Connection:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> _embedded.Database:
        # Another thread may close it meanwhile.
        database = self._database
        if database is None:
            raise InterfaceError("the connection is closed")
        return database


class Cursor:
    """Executes statements, and reads their rows page by page."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.row_factory = connection.row_factory
        #: How many rows `fetchmany` returns.
        self.arraysize = 1
        #: How many rows a page has at most. None reads all rows at once, which ORDER BY over several partitions needs.
        self.page_size: int | None = _PAGE_SIZE
        #: The number of rows is not known: -1.
        self.rowcount = -1
        self._rows: _embedded.Rows | None = None
        self._columns: list[tuple[str, str]] = []
        self._names: tuple[str, ...] = ()
        self._fetched: deque[tuple[Any, ...]] = deque()
        self._is_closed = False

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, None]] | None:
        """Name and CQL type of each column, and five values of None; None after statements without rows."""
        if not self._columns:
            return None
        return [(name, kind, None, None, None, None, None) for name, kind in self._columns]

    def execute(self, statement: str, parameters: Parameters | None = None) -> Cursor:
        """Executes a statement, with values for its markers: a sequence for `?`, or a mapping for `:name`."""
        self._check_open()
        self._show(None)
        self._show(self.connection._session.execute(statement, parameters, self.page_size))
        return self

    def executemany(self, statement: str, parameters: Iterable[Parameters]) -> Cursor:
        """Executes a statement once for each of these values. Its rows, if it has any, are discarded."""
        self._check_open()
        self._show(None)
        for values in parameters:
            self._check_open()
            self.connection._session.execute(statement, values, self.page_size)
        return self

    def fetchone(self) -> Any:
        """Returns the next row; None at the end."""
        rows = self._fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """Returns the next rows: at most `size`, or `arraysize`."""
        return self._fetch(self.arraysize if size is None else size)

    def fetchall(self) -> list[Any]:
        """Returns all further rows."""
        rows: list[Any] = []
        while chunk := self._fetch(_CHUNK):
            rows += chunk
        return rows

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        rows = self._fetch(1)
        if not rows:
            raise StopIteration
        return rows[0]

    def to_arrow(self) -> pyarrow.Table:
        """Returns all further rows as a table of Apache Arrow. Needs the package pyarrow."""
        import pyarrow

        from cassette._arrow import table

        chunks = iter(lambda: self._next_values(_CHUNK), [])
        return table(pyarrow, self._names, self._check_rows().types, chunks)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns all further rows as a DataFrame. Needs the package pandas.

        Numbers, booleans and timestamps have types of pandas that can hold null; other values are objects.
        """
        import pandas

        from cassette._pandas import frame

        rows: list[tuple[Any, ...]] = []
        while chunk := self._next_values(_CHUNK):
            rows += chunk
        return frame(pandas, self._names, self._check_rows().types, rows)

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing: the types of values are those of the markers."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing: columns of any size are read."""

    def close(self) -> None:
        """Discards the rows. The cursor cannot be used any more."""
        self._show(None)
        self._is_closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        self.connection._check_open()

    def _check_rows(self) -> _embedded.Rows:
        self._check_open()
        if self._rows is None or not self._columns:
            raise InterfaceError("there are no rows: execute a statement that returns some first")
        return self._rows

    def _show(self, rows: _embedded.Rows | None) -> None:
        self._rows = rows
        self._columns = rows.columns if rows is not None else []
        self._names = tuple(name for name, _ in self._columns)
        self._fetched.clear()

    def _fetch(self, count: int) -> list[Any]:
        values = self._next_values(count)
        if self.row_factory is tuple_factory:
            return values
        return [self.row_factory(self._names, row) for row in values]

    def _next_values(self, count: int) -> list[tuple[Any, ...]]:
        rows = self._check_rows()
        while len(self._fetched) < count:
            fetched = rows.fetch(_CHUNK)
            self._fetched.extend(fetched)
            if len(fetched) < _CHUNK:
                break
        return [self._fetched.popleft() for _ in range(min(count, len(self._fetched)))]
