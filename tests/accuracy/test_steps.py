"""Steps found in training traces whose marks are hidden, against what the marks say."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotline_analysis.annotation.pipeline import annotate
from tests.accuracy.hide import tables_of
from tests.real_traces import TRACES
from tests.runs import opened

PAIRS = Path(__file__).parents[1] / "data" / "pairs"
OURS = ("cnn_plain", "gnn_accumulate_plain", "lstm_plain", "transformer_frames", "unet_plain")
REAL = ("ddp_a100_annotated", "dlrm_a100_rank3", "resnet18_ddp_checkpoint_mi300")
MARKS = r"^(ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)|## )"


def agreement(path: Path) -> tuple[float, set[str]]:
    """Share of the CPU time in marked steps that has the same step without the marks, and how steps were found."""
    with opened(path) as trace:
        truth = tables_of(trace)
        hidden = tables_of(trace)
    annotate(truth)
    hidden.execute("delete from event where category like '%user_annotation' and regexp_matches(name, $1)", [MARKS])
    annotate(hidden)
    number = "select event_id, dense_rank() over (order by label.step) - 1 as step from label where step is not null"
    hidden.register("truth", truth.sql(number).to_arrow_table())
    right = hidden.sql(
        "select 100.0 * sum(nesting.self_ns) filter (where label.step = truth.step) / sum(nesting.self_ns) from truth"
        " inner join event using (event_id) inner join nesting using (event_id) inner join label using (event_id)"
        " where event.category = 'cpu_op'"
    ).fetchall()[0][0]
    return float(right), {row[0] for row in hidden.sql("select evidence from step").fetchall()}


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
@pytest.mark.sampled
def test_our_captures(name: str) -> None:
    right, evidence = agreement(PAIRS / f"{name}.json.gz")
    assert evidence == {"module" if name.endswith("frames") else "autograd"}
    assert right > 99.9


@pytest.mark.slow
@pytest.mark.traces
@pytest.mark.parametrize("name", REAL)
def test_real_training(name: str) -> None:
    right, evidence = agreement(TRACES / "training" / f"{name}.json.gz")
    assert evidence <= {"module", "autograd"}
    assert right > 99.9
