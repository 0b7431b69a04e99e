from pathlib import Path

from hotline_analysis import Trace
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "compiled_without_graphs"


def compiled(folder: Path, *, region: str = "Torch-Compiled Region: 0/0", of_graph: bool = False) -> Trace:
    """A step of 400 us that the CPU bounds: 300 us of it go by in a region that launches two kernels of 10 us.

    The last kernel starts 30 us after its launch, so the first two are done by then without the region, too.
    """
    trace = TraceBuilder(rank=0).step(0, 0, 400).op(region, 0, 300).op("triton_poi_fused_relu_0", 0, 20)
    if of_graph:
        trace.runtime("cudaGraphLaunch", 1, 3, correlation=90)
        trace.kernel("one", 10, 20, correlation=90).kernel("two", 20, 30, correlation=90)
    else:
        trace.launches("one", 10, 20).op("triton_poi_fused_add_1", 200, 220).launches("two", 210, 220)
    trace.op("aten::sum", 300, 320).launches("sum", 330, 390)
    return trace.runtime("cudaDeviceSynchronize", 320, 400, correlation=99).load(folder)


def test_a_graph_takes_no_time_of_the_cpu(tmp_path: Path) -> None:
    assert found(compiled(tmp_path), RULE) == (1, 300, 300)


def test_a_region_that_replays_a_graph_has_one(tmp_path: Path) -> None:
    assert found(compiled(tmp_path, of_graph=True), RULE) is None


def test_code_that_is_not_compiled_is_another_finding(tmp_path: Path) -> None:
    assert found(compiled(tmp_path, region="my region"), RULE) is None
