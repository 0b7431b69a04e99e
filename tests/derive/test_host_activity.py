from pathlib import Path

from tests.derive.tables import every_table
from tests.trace_builder import TraceBuilder


def test_loading_over_waiting_over_ops_over_python(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 10, 40).op("b", 20, 30).runtime("cudaStreamSynchronize", 35, 38)
    trace.runtime("cudaLaunchKernel", 45, 50)
    trace.annotation("## load data ##", 60, 80).op("copy", 65, 70).runtime("cudaMemcpy", 66, 69)
    trace.on(2).op("not the main thread", 0, 100)
    with every_table(trace.load(tmp_path)) as tables:
        changes = tables.sql("select at_ns / 1000, kind from host_activity order by at_ns").fetchall()
        totals = tables.sql(
            "select load_data_before_ns, sync_before_ns, op_before_ns from host_activity order by at_ns desc limit 1"
        ).fetchall()
    assert changes == [
        (10, "op"),
        (35, "sync"),
        (38, "op"),
        (40, "python"),
        (45, "op"),
        (50, "python"),
        (60, "load_data"),
        (80, "python"),
    ]
    assert totals == [(20_000, 3_000, 27_000 + 5_000)]


def test_threads_that_launch_have_their_own(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 10, 20).on(2).op("b", 30, 45).launches("k", 50, 60)
    trace.on(3).op("c", 50, 60)
    with every_table(trace.load(tmp_path)) as tables:
        found = tables.sql(
            "select tid, at_ns / 1000, kind, op_before_ns / 1000 from host_activity inner join track using (track_id)"
            " order by tid, at_ns"
        ).fetchall()
    assert found == [("1", 10, "op", 0), ("1", 20, "python", 10), ("2", 30, "op", 0), ("2", 45, "python", 15)]


def test_calls_that_touch_overlap_or_nest_are_one(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 10, 20).op("b", 20, 30).runtime("cudaMalloc", 40, 60)
    trace.runtime("cudaMemsetAsync", 45, 50).op("nothing", 80, 80)
    with every_table(trace.load(tmp_path)) as tables:
        rows = tables.sql("select at_ns / 1000, kind, op_before_ns / 1000 from host_activity order by at_ns")
        found = rows.fetchall()
    assert found == [(10, "op", 0), (30, "python", 20), (40, "op", 20), (60, "python", 40)]
