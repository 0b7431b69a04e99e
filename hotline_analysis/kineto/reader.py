"""Read one trace file as a stream of Arrow tables: split and decoded in parallel, delivered in file order."""

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
)  # a pickle starts with byte 0x80 (invalid UTF-8, so \ufffd in the text) and the protocol number
# Database settings for reading: each batch uses one thread and fits into memory.
READER_SETTINGS = {**SETTINGS, "threads": 1, "temp_directory": ""}
_MOST_DECODERS = 4  # each uses about 50 MB; more would wait for the splitter


class TraceReader:
    """Reads one trace file. Iterate once; `metadata` and `damage` are complete afterwards.

    Each item maps table names to Arrow tables (see `Decoder.decode`); rows are in file order. `threads` is the number
    of available processors. `database` is an optional existing database; set it to one thread. `spellings` has the
    spellings of categories (see `Decoder`). Raises `TraceFormatError` if the file is not a trace, and `EmptyTraceError`
    if it has no events.
    """

    def __init__(
        self,
        path: Path,
        on_progress: Callable[[int], None] | None = None,
        threads: int = 2,
        database: duckdb.DuckDBPyConnection | None = None,
        spellings: pa.Table | None = None,
    ) -> None:
        self.path = path
        self._decoder_count = min(max(2, threads), _MOST_DECODERS)
        self.event_count = 0
        self._phase_count = 0
        self._source = TextSource(path)
        # A single database, because starting one takes as long as reading a small trace. Each user has a connection.
        self._is_own = database is None
        self._database = database or duckdb.connect(config=READER_SETTINGS)
        self._splitter = EventSplitter(self._source, self._database.cursor())
        self._on_progress = on_progress
        self._local = threading.local()
        self._decoders: list[Decoder] = []
        self._spellings = spellings

    @property
    def metadata(self) -> dict[str, Any]:
        """Everything in the file besides the events."""
        return self._splitter.metadata

    @property
    def first_metadata(self) -> dict[str, Any] | None:
        """The first document's metadata, if another document follows in the file."""
        return self._splitter.first_metadata

    @property
    def damage(self) -> Damage:
        """The unreadable parts of the file."""
        return self._splitter.damage

    def __iter__(self) -> Iterator[Mapping[str, pa.Table]]:
        """Yield the events, decoding a few batches ahead, so that memory use stays constant."""
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
            self._local.decoder = Decoder(self._database.cursor(), self._spellings)
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
            self.damage.note("the event array contains other values than events")
        return tables

    def _finish(self) -> None:
        """Raise an error if the file has no events; the message describes the file."""
        if self._source.problem:
            self.damage.notes.insert(0, self._source.problem)
        if self._phase_count:
            return
        if not self._source.text_bytes and self._source.problem:
            raise TraceFormatError(
                f"{self.path} cannot be decompressed: {self._source.problem}", hint="Copy or export the trace again."
            )
        if not self._splitter.beginning:
            raise EmptyTraceError(f"{self.path} is empty", hint="Was the export interrupted?")
        if _PICKLE.match(self._splitter.beginning) and not self._splitter.has_trace_key:
            raise TraceFormatError(
                f"{self.path} seems to be a pickle, such as a memory snapshot: pickles could run code and are not read",
                hint="Capture with profile_memory=True and ask memory_breakdown, or open pytorch.org/memory_viz.",
            )
        if self.event_count or not self._splitter.has_trace_key:
            reason = (
                "no object is an event with a phase `ph`"
                if self.event_count
                else "it is not a JSON object with `traceEvents` nor a JSON array of events"
            )
            raise TraceFormatError(
                f"{self.path} is not a PyTorch profiler trace: {reason} (it starts with {self._splitter.beginning!r})",
                hint="Pass a file written by torch.profiler's export_chrome_trace or tensorboard_trace_handler.",
            )
        if self.damage.lost_events:
            raise TraceFormatError(
                f"{self.path} has no readable events: {'; '.join(self.damage.notes)}"
                f" ({self.damage.lost_events:,} events were damaged)",
                hint="Copy or export the trace again.",
            )
        raise EmptyTraceError(
            f"{self.path} has no events", hint="Was the profiler active? A schedule may have skipped every step."
        )
