"""Steps of real traces in a loop: plain Python over the same graph, and the time that the steps really took."""

from __future__ import annotations

import pytest

from hotline_analysis.answers.limits import typical_step
from tests.real_traces import opened
from tests.replayed import period

pytestmark = pytest.mark.traces


# Several steps each; in the first two, the GPU is one to two steps behind the CPU.
TRACES = (
    "training/resnet18_ddp_checkpoint_mi300",
    "training/dlrm_v100_cudagraph",
    "training/dlrm_a100_rank3",
    "training/ddp_a100_annotated",
    "loader_pairs/2_workers4",
)


@pytest.mark.parametrize("name", TRACES)
def test_the_period_is_what_steps_take(name: str) -> None:
    trace = opened(f"{name}.json.gz")
    typical = typical_step(trace)
    assert typical is not None
    # The time from the end of one step's GPU work to that of the next: nothing of the graph knows it.
    ends = trace.sql(
        "select max(event.end_ns) as done_ns from label inner join launch using (rank, event_id)"
        " inner join event using (rank, event_id) where label.step is not null group by label.step order by label.step"
    )["done_ns"]
    mean = (ends[-1] - ends[0]) / (len(ends) - 1)
    assert abs(typical.replay.period_ns - mean) < 0.03 * mean


@pytest.mark.parametrize("name", TRACES[:2])
def test_the_period_is_that_of_plain_python(name: str) -> None:
    typical = typical_step(opened(f"{name}.json.gz"))
    assert typical is not None
    assert typical.replay.period_ns == period(typical.replay, 12)
