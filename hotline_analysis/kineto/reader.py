"""One trace file → a stream of Arrow tables: split and decoded in parallel, delivered in file order."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hotline_analysis.database import SETTINGS
from hotline_analysis.errors import EmptyTraceError, TraceFormatError
from hotline_analysis.kineto.decode import Decoder
from hotline_analysis.kineto.source import TextSource
from hotline_analysis.kineto.split import Batch, Damage, EventSplitter

_PICKLE = re.compile(
    "\ufffd[\x02-\x05]"
)  # as text, what is no UTF-8 is \ufffd: byte 0x80, and the number of the protocol
# How a database is set that reads: each batch in one thread, and it fits into memory.
READER_SETTINGS = {**SETTINGS, "threads": 1, "temp_directory": ""}
_MOST_DECODERS = 4  # each holds about 50 MB; more would wait for the one that splits the file


class TraceReader:
    """Reads one trace file. Iterate once; `metadata` and `damage` are complete afterwards.

    Each item maps table names to Arrow tables (see `Decoder.decode`); rows come in file order. Raises
    `TraceFormatError` for a file that is no trace and `EmptyTraceError` for one without events. `threads` is how many
    processors there are for it. It reads in `database`, if one is given, which should run statements in one thread.
    """

    def __init__(
        self,
        path: Path,
        on_progress: Callable[[int], None] | None = None,
        threads: int = 2,
        database: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self.path = path
        self._decoder_count = min(max(2, threads), _MOST_DECODERS)
        self.event_count = 0
        self._phase_count = 0
        self._source = TextSource(path)
        # One database, as starting one takes as long as reading a small trace; each of its users has a connection.
        self._is_own = database is None
        self._database = database or duckdb.connect(config=READER_SETTINGS)
        self._splitter = EventSplitter(self._source, self._database.cursor())
        self._on_progress = on_progress
        self._local = threading.local()
        self._decoders: list[Decoder] = []

    @property
    def metadata(self) -> dict[str, Any]:
        """Everything in the file beside its events."""
        return self._splitter.metadata

    @property
    def damage(self) -> Damage:
        """What could not be read."""
        return self._splitter.damage

    def __iter__(self) -> Iterator[Mapping[str, pa.Table]]:
        """Deliver the events, a few batches ahead of the reader, so that memory stays flat."""
        pending: deque[tuple[int, Future[Mapping[str, pa.Table]]]] = deque()
        pool = ThreadPoolExecutor(self._decoder_count, thread_name_prefix="hotline-decode")
        try:
            for batch in self._splitter:
                pending.append((len(batch.texts), pool.submit(self._decode, batch)))
                if len(pending) > self._decoder_count:
                    yield self._count(*pending.popleft())
                if self._on_progress:
                    self._on_progress(self._source.bytes_read)
            while pending:
                yield self._count(*pending.popleft())
        finally:
            pool.shutdown(cancel_futures=True)
            for decoder in self._decoders:
                decoder.close()
            if self._is_own:
                self._database.close()
        self._finish()

    def _decode(self, batch: Batch) -> Mapping[str, pa.Table]:
        if not hasattr(self._local, "decoder"):
            self._local.decoder = Decoder(self._database.cursor())
            self._decoders.append(self._local.decoder)
        decoder: Decoder = self._local.decoder
        return decoder.decode(batch)

    def _count(self, texts: int, result: Future[Mapping[str, pa.Table]]) -> Mapping[str, pa.Table]:
        tables = result.result()
        readable = tables["event"].num_rows
        self.event_count += readable
        self._phase_count += readable - tables["event"]["ph"].null_count
        if readable < texts:
            self.damage.lost_events += texts - readable
            self.damage.note("the events contain something that is no event")
        return tables

    def _finish(self) -> None:
        """Turn a file without events into an error that says what the file is instead."""
        if self._source.problem:
            self.damage.notes.insert(0, self._source.problem)
        if self._phase_count:
            return
        if not self._source.text_bytes and self._source.problem:
            raise TraceFormatError(
                f"{self.path} cannot be decompressed: {self._source.problem}", hint="Copy or export it again."
            )
        if not self._splitter.beginning:
            raise EmptyTraceError(f"{self.path} is empty", hint="Was the export interrupted?")
        if _PICKLE.match(self._splitter.beginning) and not self._splitter.has_trace_key:
            raise TraceFormatError(
                f"{self.path} seems to be a pickle, as memory snapshots are: none is read, as it could run code",
                hint="Capture with profile_memory=True and ask memory_breakdown; pytorch.org/memory_viz shows them.",
            )
        if self.event_count or not self._splitter.has_trace_key:
            what = (
                "none of its objects is an event, which has a phase `ph`"
                if self.event_count
                else "it is not a JSON object with `traceEvents` nor a JSON array of events"
            )
            raise TraceFormatError(
                f"{self.path} is no PyTorch profiler trace: {what} (it starts with {self._splitter.beginning!r})",
                hint="Pass a file written by torch.profiler's export_chrome_trace or tensorboard_trace_handler.",
            )
        if self.damage.lost_events:
            raise TraceFormatError(
                f"{self.path} has no readable event: {'; '.join(self.damage.notes)}"
                f" ({self.damage.lost_events:,} events were damaged)",
                hint="Copy or export it again.",
            )
        raise EmptyTraceError(
            f"{self.path} holds no events", hint="Was the profiler active? A schedule may have skipped every step."
        )
