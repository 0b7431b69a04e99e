"""Connections of an open run: one per thread, because a connection holds one result at a time."""

from __future__ import annotations

import threading
import weakref

import duckdb


class Connections:
    """Connections to one database. Tables and views are shared; temporary tables are private to a connection."""

    def __init__(self, first: duckdb.DuckDBPyConnection, beside: Connections | None = None) -> None:
        self._first = first
        self._local = threading.local()
        self._local.connection = first
        # A weak set: the connections of a finished thread are dropped.
        self._open: weakref.WeakSet[duckdb.DuckDBPyConnection] = beside._open if beside else weakref.WeakSet()
        self._lock: threading.Lock = beside._lock if beside else threading.Lock()
        self._add(first)

    def _add(self, connection: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            self._open.add(connection)

    @property
    def mine(self) -> duckdb.DuckDBPyConnection:
        """The connection of the calling thread. Raises `duckdb.ConnectionException` after `close`."""
        if not hasattr(self._local, "connection"):
            self._local.connection = self._first.cursor()
            self._add(self._local.connection)
        return self._local.connection  # type: ignore[no-any-return]

    def apart(self) -> Connections:
        """Another connection of this thread, with private temporary tables."""
        return Connections(self.mine.cursor(), self)

    def interrupt(self) -> None:
        """Stop every running statement. The database ignores an interrupt before a statement runs."""
        with self._lock:
            for connection in self._open:
                connection.interrupt()

    def close_mine(self) -> None:
        """Close the connection of this thread. A closed connection cannot be interrupted."""
        connection = self.mine
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def close(self) -> None:
        """Close all connections, and the database."""
        with self._lock:
            for connection in self._open:
                connection.close()
            self._open.clear()
