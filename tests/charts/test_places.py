"""What a timeline adds to the tree: python where no op runs, where events stand, and what a step waits for."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hotline_analysis import Trace
from hotline_analysis.charts import timeline
from hotline_analysis.charts.places import waited_for, way
from tests.trace_builder import TraceBuilder


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """A step of 200 us: python prepares data for 100, forward launches 5 + 60 us of work and waits for it."""
    made = TraceBuilder(rank=0).step(0, 0, 200).annotation("enumerate(DataLoader)#_Iter.__next__", 0, 102)
    made.frame("data.py(3): decode", 2, 101)
    for begin in (10, 40):
        made.frame("data.py(7): resize", begin, begin + 20)
    made.frame("data.py(8): total", 70, 100)
    made.module("Net", 0, 103, 198).module("Linear", 0, 104, 120).op("aten::mm", 105, 118)
    made.launches("small", 112, 117, at=108, until=110)
    made.module("Linear", 1, 121, 140).op("aten::mm", 122, 138).launches("large", 130, 190, at=125, until=127)
    return made.runtime("cudaStreamSynchronize", 141, 191).load(tmp_path)


def test_python_stands_where_no_op_runs(trace: Trace) -> None:
    made = timeline(trace)
    nodes = made._nodes
    found = nodes.filter(pl.col("name").str.starts_with("data.py")).sort("start_ns", "depth")
    assert found.select("label", "kind", "cpu_ns", "phase").rows() == [
        ("data.py(3): decode", "python", 99_000, "load_data"),
        ("data.py(7): resize × 2", "group", 40_000, "load_data"),
        ("data.py(8): total", "python", 30_000, "load_data"),
    ]
    decode, *inside = found["node_id"]
    assert nodes.filter(pl.col("node_id").is_in(inside))["parent_id"].to_list() == [decode, decode]
    above = nodes.filter(node_id=found["parent_id"][0]).row(0, named=True)
    assert (above["kind"], above["short_name"]) == ("phase", "load_data")
    assert found["depth"].to_list() == [above["depth"] + 1, above["depth"] + 2, above["depth"] + 2]


def test_the_opened_way_follows_what_the_step_waits_for(trace: Trace) -> None:
    """Of 200 us it waits for loading in about 100, of which decode has 99, and in that resizing has most."""
    made = timeline(trace)
    labels = dict(made._nodes.select("node_id", "label").iter_rows())
    assert [labels[node] for node in made.chain] == [
        "step 0",
        "load data",
        "data.py(3): decode",
        "data.py(7): resize × 2",
    ]


def test_what_a_node_waits_for_is_in_the_nodes_around_it(trace: Trace) -> None:
    made = timeline(trace)
    places = pl.DataFrame(list(made._places.items()), {"event_id": pl.Int64, "node_id": pl.Int64}, orient="row")
    waits = dict(waited_for(trace, 0, 0, made.detail, places).iter_rows())
    known = made._nodes.filter(pl.col("parent_id").is_not_null()).select("node_id", "parent_id").rows()
    assert all(waits[node] <= waits[parent] for node, parent in known)
    assert waits[made.chain[0]] == pytest.approx(200_000, rel=0.02)
    # Loading takes the main thread for 102 us.
    assert waits[made.chain[1]] == pytest.approx(102_000, abs=1_000)


def test_events_stand_in_their_node_or_the_one_around_it(trace: Trace) -> None:
    made = timeline(trace)
    events = dict(trace.sql("select name, min(event_id) from event group by name").iter_rows())
    nodes = made._nodes

    def place(name: str) -> tuple[str, str]:
        at = made.position_of(events[name])
        assert at is not None
        row = nodes.row(at, named=True)
        return row["kind"], row["short_name"]

    assert place("data.py(7): resize") == ("group", "data.py(7): resize")
    assert place("data.py(3): decode") == ("python", "data.py(3): decode")
    at = made.position_of(events["large"])
    assert at is not None
    # The large kernel runs from 130 to 190 us, the small one before.
    work = made.detail.filter(pl.col("device") == "gpu", pl.col("node_id") == nodes["node_id"][at])
    assert work.select("start_ns", "end_ns").rows() == [(130_000, 190_000)]
    assert made.position_of(10**9) is None


def test_a_step_that_waits_for_nothing_has_no_way() -> None:
    nodes = pl.DataFrame({"node_id": [0], "parent_id": [None]}, {"node_id": pl.Int64, "parent_id": pl.Int64})
    assert way(nodes, pl.DataFrame(schema={"node_id": pl.Int64, "path_ns": pl.Int64}), min_pct=5.0) == []
