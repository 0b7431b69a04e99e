from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "small_grids"


def test_the_work_of_few_blocks_spreads_over_all_multiprocessors(tmp_path: Path) -> None:
    """27 of 108 multiprocessors work: a quarter of the time would do."""
    step = GpuStep().kernel("small", 400, grid=(9, 3, 1)).kernel("large", 100, grid=(108, 1, 1))
    assert found(step.load(tmp_path), RULE) == (1, 400, 300)


def test_collectives_have_few_blocks_on_purpose(tmp_path: Path) -> None:
    step = GpuStep().kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", 400, grid=(24, 1, 1))
    assert found(step.load(tmp_path), RULE) is None


def test_the_rest_of_the_gpu_has_other_work(tmp_path: Path) -> None:
    step = GpuStep().kernel("small", 400, grid=(27, 1, 1))
    step.trace.op("aten::op", 2, 4).launches("beside", 300, 450, stream=8, grid=[1000, 1, 1])
    step.cpu, step.gpu = 4, 500
    assert found(step.load(tmp_path), RULE) is None


def test_a_grid_in_threads_is_counted_in_blocks(tmp_path: Path) -> None:
    """`hipExtModuleLaunchKernel` takes the grid in threads: 6,912 are 27 blocks of 256, for 108 multiprocessors."""
    step = GpuStep().kernel("small", 400, grid=(6912, 1, 1))
    for event in step.trace.events:
        if event.get("name") == "cudaLaunchKernel":
            event["name"] = "hipExtModuleLaunchKernel"
        if event.get("name") == "small":
            event["args"] |= {"block": [256, 1, 1], "kind": "Dispatch Kernel"}
    assert found(step.load(tmp_path), RULE) == (1, 400, 300)
