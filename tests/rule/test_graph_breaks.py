from pathlib import Path

import pytest

from hotline_analysis.answers.rules import find_advice
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "graph_breaks"


def broken(
    *, second: str = "1/0", graph: str = "CompiledFunction", inside: bool = True, frame: str = ""
) -> TraceBuilder:
    """A step of 1,000 us, in which a compiled function of 800 us runs 300, something for 200, and the rest for 300."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    trace.op("Torch-Compiled Region: 0/0", 0, 800 if inside else 300)
    if graph:
        trace.op(graph, 0, 300)
    trace.op("aten::mm", 100, 290)
    trace.op("TorchDynamo Cache Lookup", 480, 500)
    trace.op(f"Torch-Compiled Region: {second}", 500, 800)
    if frame:
        trace.frame(frame, 501, 799)
    trace.op("CompiledFunction", 510, 790).op("aten::mm", 520, 780)
    return trace


def test_a_region_inside_of_a_region(tmp_path: Path) -> None:
    trace = broken().load(tmp_path)
    assert found(trace, RULE) == (1, 200, 200)
    (said,) = find_advice(trace, rules=(RULE,))
    assert said.what.startswith("Breaks between graphs of compiled code, in one function")


def test_stacks_say_where_the_graph_ended(tmp_path: Path) -> None:
    trace = broken(frame="train.py(12): torch_dynamo_resume_in_forward_at_12").load(tmp_path)
    (said,) = find_advice(trace, rules=(RULE,))
    assert "in forward (train.py:12)" in said.what


@pytest.mark.parametrize("graph", ["## Call CompiledFxGraph fabc ##", ""])
def test_inference_has_no_node_of_autograd(tmp_path: Path, graph: str) -> None:
    """Without any mark the graph ends with its last op."""
    assert found(broken(graph=graph).load(tmp_path), RULE) == ((1, 200, 200) if graph else (1, 210, 210))


def test_three_graphs(tmp_path: Path) -> None:
    trace = broken()
    trace.op("Torch-Compiled Region: 2/0", 785, 789)
    assert found(trace.load(tmp_path), RULE) == (2, 205, 205)


def test_functions_that_follow_each_other_are_compiled_one_by_one(tmp_path: Path) -> None:
    assert found(broken(inside=False).load(tmp_path), RULE) is None


def test_a_function_that_calls_itself(tmp_path: Path) -> None:
    assert found(broken(second="0/1").load(tmp_path), RULE) is None
