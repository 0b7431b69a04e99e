"""One program as both recorders see it: whatever both can tell is equal, table by table and answer by answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import catalog
from hotline_analysis.schema import TABLES
from tests.nsight_export import SCHEMAS, Event, read, twins
from tests.query_arguments import arguments, training
from tests.trace_builder import TraceBuilder
from tests.witness.comparing import difference

DATA = Path(__file__).parents[1] / "data" / "gpu"
Program = Callable[[], tuple[list[Event], Event]]

# Columns that say which file it is, or how its recorder numbers threads.
_OF_THE_FILE = {"file", "metadata", "forward_thread", "raw_category", "properties", "callback_id", "event_count"}
# Tables that hold what only one recorder says, or metadata events, which no answer has.
_OTHER_TABLES = {"rank_info", "runtime_call", "event_args", "track"}


def synchronised() -> tuple[list[Event], Event]:
    """Two streams that wait for each other by CUDA events, and a thread that waits for both."""
    trace = TraceBuilder(rank=0)
    for step in range(3):
        at = 1000 * step
        trace.step(step, at, at + 900).op("aten::mm", at + 10, at + 30).launches("gemm", at + 40, at + 140)
        record, wait, sync = (trace.new_correlation() for _ in range(3))
        trace.runtime("cudaEventRecordWithFlags", at + 32, at + 34, correlation=record)
        trace.runtime("cudaStreamWaitEvent", at + 36, at + 38, correlation=wait)
        args: dict[str, Any] = {"device": 0, "context": 1, "correlation": wait, "stream": 9}
        waits = {"wait_on_stream": 7, "wait_on_cuda_event_id": 5, "wait_on_cuda_event_record_corr_id": record}
        kind = {"cuda_sync_kind": "Stream Wait Event"}
        trace.event(
            ph="X",
            cat="cuda_sync",
            name="Stream Wait Event",
            pid=0,
            tid=9,
            ts=at + 36,
            dur=2,
            args={**args, **waits, **kind},
        )
        trace.op("aten::add", at + 50, at + 60).launches("add", at + 140, at + 200, stream=9)
        trace.runtime("cudaStreamSynchronize", at + 70, at + 210, correlation=sync)
        args = {"device": 0, "context": 1, "correlation": sync, "stream": 9, "cuda_sync_kind": "Stream Sync"}
        trace.event(ph="X", cat="cuda_sync", name="Stream Sync", pid=0, tid=9, ts=at + 70, dur=140, args=args)
        trace.op("aten::relu", at + 300, at + 320).launches("relu", at + 330, at + 350)
    return trace.events, {}


PROGRAMS: dict[str, Program] = {
    "all kinds": lambda: (training().events, {}),
    "two streams": synchronised,
    **{
        name: partial(read, DATA / f"{name}.json.gz")
        for name in (
            *("twins/copy-bound", "twins/gpu-bound", "twins/input-bound", "cuda_graphs_plain", "unet_inference_plain"),
            "transformer_plain",
        )
    },
}


QUICK = ("all kinds", "two streams", "twins/copy-bound")


def loaded(path: Path) -> ha.Trace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ha.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in PROGRAMS]
)
def test_every_table_and_answer_is_the_same(name: str, schema: str, tmp_path: Path) -> None:
    events, top = PROGRAMS[name]()
    kineto, export = (loaded(path) for path in twins(events, top, tmp_path, schema))
    assert kineto.sql("select count(*) from event where ph = 'X'").item() > 10
    step = kineto.sql("select min(step) from step").item()
    differing = {}
    for table in TABLES.values():
        if table.name not in _OTHER_TABLES and (problem := compared(kineto, export, table.name)):
            differing[f"table {table.name}"] = problem
    for query in (*catalog.queries("answers"), *catalog.queries("advice")):
        asked = arguments(query, **({"step": step} if any(param.name == "step" for param in query.params) else {}))
        ours, theirs = (without_file(trace.query(query.name, **asked)) for trace in (kineto, export))
        if problem := difference(ours, theirs, is_table=True):
            differing[query.name] = problem
    assert differing == {}


def compared(kineto: ha.Trace, export: ha.Trace, table: str) -> str:
    ours, theirs = (without_file(trace.table(table)) for trace in (kineto, export))
    if table == "event":
        ours, theirs = (frame.filter(pl.col("ph") != "M") for frame in (ours, theirs))
    return difference(ours, theirs, is_table=True)


def without_file(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.drop(name for name in frame.columns if name in _OF_THE_FILE)
