"""What holds of every rule of advice."""

from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import catalog
from hotline_analysis.answers.rules import find_advice
from tests.answer.graph_capture import captured
from tests.rule.loop import GpuStep

RULES = {rule.name: rule for rule in catalog.queries("advice")}


@pytest.mark.parametrize("rule", RULES)
def test_it_has_tests_and_says_where_it_comes_from(rule: str) -> None:
    assert (Path(__file__).parent / f"test_{rule}.py").is_file()
    text = " ".join(RULES[rule].description.split())
    assert all(f"{word}: " in text for word in ("Condition", "Bound", "Source")), text


def test_a_trace_that_records_no_run_gets_no_advice(tmp_path: Path) -> None:
    """Where launches are recorded into a graph, the arithmetic on the CPU beside it tells nothing of a training."""
    opened = captured(6, 4).op("aten::max", 900, 990).load(tmp_path)
    assert ha.gpu_or_cpu_bound(opened).answer == "no-run"
    assert find_advice(opened) == []
    assert ha.advice(opened).is_empty()
    run = captured(0, 4).op("aten::max", 900, 990).load(tmp_path, "run.json")
    assert "cpu_tensors" in [each.rule for each in find_advice(run)]


def test_advice_is_a_frame_too(tmp_path: Path) -> None:
    trace = GpuStep().kernel("nchwToNhwcKernel", 100).kernel("other", 100).load(tmp_path)
    (row,) = ha.advice(trace).rows(named=True)
    (said,) = find_advice(trace)
    assert row["rule"] == "layout_transposes"
    assert row["gain_ns"] == 100_000
    assert row["event_id"] == said.event_id
    assert "shorter without it" in str(said)
