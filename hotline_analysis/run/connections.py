"""The connections of an open run: each thread that asks has one, as a connection holds one result at a time."""

from __future__ import annotations

import threading
import weakref

import duckdb


class Connections:
    """The connections to one database, which sees its tables and views; temporary tables are those of a connection."""

    def __init__(self, first: duckdb.DuckDBPyConnection, beside: Connections | None = None) -> None:
        self._first = first
        self._local = threading.local()
        self._local.connection = first
        # Those of a thread that has ended go with it.
        self._open: weakref.WeakSet[duckdb.DuckDBPyConnection] = beside._open if beside else weakref.WeakSet()
        self._lock: threading.Lock = beside._lock if beside else threading.Lock()
        self._add(first)

    def _add(self, connection: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            self._open.add(connection)

    @property
    def mine(self) -> duckdb.DuckDBPyConnection:
        """The connection of the thread that asks. Raises `duckdb.ConnectionException` once they are closed."""
        if not hasattr(self._local, "connection"):
            self._local.connection = self._first.cursor()
            self._add(self._local.connection)
        return self._local.connection  # type: ignore[no-any-return]

    def apart(self) -> Connections:
        """One more connection of this thread, so that nobody else sees its temporary tables."""
        return Connections(self.mine.cursor(), self)

    def interrupt(self) -> None:
        """Stop every statement that runs. The database forgets an interrupt that comes before one."""
        with self._lock:
            for connection in self._open:
                connection.interrupt()

    def close_mine(self) -> None:
        """Close the connection of this thread."""
        self.mine.close()

    def close(self) -> None:
        """Close all, and with them the database."""
        with self._lock:
            for connection in self._open:
                connection.close()
