"""The samples that a capture stored in the trace, as a table."""

import json
from pathlib import Path
from typing import Any

import hotline_analysis as ha
from tests.trace_builder import TraceBuilder

SAMPLE = {
    "after": "optimizer",
    "before": "load_data",
    "inside": None,
    "function": "save_grid",
    "file": "train.py",
    "line": 10,
    "first_line": 7,
    "module": "__main__",
    "count": 90,
    "inclusive": 92,
    "gap": 100,
    "is_user": True,
    "is_loop": False,
    "is_caller": False,
}


def rows(samples: Any, folder: Path) -> list[dict[str, Any]]:
    trace = TraceBuilder().step(0, 0, 1000).op("op", 0, 900)
    path = trace.write(folder / "trace.json")
    content = json.loads(path.read_text())
    path.write_text(json.dumps({"hotline_samples": samples, **content}))
    with ha.load(path) as run:
        return run.sql("select * exclude rank from sampled_frame").to_dicts()


def test_each_stored_frame_is_a_row(tmp_path: Path) -> None:
    (row,) = rows({"version": 1, "frames": [SAMPLE]}, tmp_path)
    assert row == {
        "after_mark": "optimizer",
        "before_mark": "load_data",
        "inside_mark": None,
        "function": "save_grid",
        "file": "train.py",
        "line": 10,
        "first_line": 7,
        "module": "__main__",
        "sample_count": 90,
        "inclusive_count": 92,
        "gap_sample_count": 100,
        "is_user": True,
        "is_loop": False,
        "is_caller": False,
    }


def test_what_is_no_list_of_frames_has_no_rows(tmp_path: Path) -> None:
    odd: list[object] = [None, 3, [], {}, {"frames": 3}, {"frames": [3, None, {}]}, {"frames": {"a": 1}}]
    for number, samples in enumerate(odd):
        (folder := tmp_path / str(number)).mkdir()
        assert rows(samples, folder) == [], samples
