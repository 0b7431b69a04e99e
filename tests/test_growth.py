"""Small files that once took minutes or gigabytes: each is imported and asked everything, in a minute and 1.5 GB."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import bench_growth
from tests.benchmarks.odd_traces import write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads peaks from /proc")

# Of the parts that took too long, those that no other one here shows as well; `make bench` tries more. They were:
# pairs of arrows that share a place, of streams and idle times, of ranges and kernels; a search for each series.
SHAPES = {
    "flow_launch/one_id_at_one_time": 4000,
    "sync/own_tracks": 4000,
    "counter/many_series": 40_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_work_is_in_proportion_to_the_file(tmp_path: Path, shape: str) -> None:
    file = write(shape, SHAPES[shape], tmp_path / "trace.json")
    done = subprocess.run(
        [sys.executable, bench_growth.__file__, "--measure", str(file)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert {"import", "report", "perfetto", "timeline", "answer advice"} <= set(figures)
    assert max(peak for _, peak, _ in figures.values()) < bench_growth.LIMIT_MB
