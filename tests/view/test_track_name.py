"""What people call threads and streams."""

from pathlib import Path

from tests.trace_builder import TraceBuilder


def test_threads_of_one_name_are_told_apart_by_their_number(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).thread_name("python").op("aten::mm", 0, 10).launches("gemm", 20, 30, at=2)
    trace.on(2).thread_name("thread 2 (python)").op("aten::add", 0, 10)
    trace.on(3).thread_name("pt_autograd_0").op("aten::sub", 0, 10).on(4).op("aten::mul", 0, 10)
    found = trace.load(tmp_path).query("track_name")
    assert found.select("device", "name").sort("name").rows() == [
        ("cpu", "pt_autograd_0"),
        ("cpu", "python 1"),
        ("cpu", "python 2"),
        ("gpu", "stream 7"),
        ("cpu", "thread 4"),
    ]
