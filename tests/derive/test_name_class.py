from pathlib import Path
from time import process_time

import pytest

import hotline_analysis as ha
from tests.derive.tables import every_table
from tests.trace_builder import TraceBuilder

# Category, name, and the phase it shows: strong, weak or aside.
CASES = [
    ("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "strong", "load_data"),
    ("user_annotation", "Optimizer.step#AdamW.step", "strong", "optimizer"),
    ("user_annotation", "Optimizer.zero_grad#AdamW.zero_grad", "strong", "zero_grad"),
    ("user_annotation", "DistributedDataParallel.forward", "weak", "forward"),
    ("user_annotation", "ProfilerStep#3", None, None),
    ("user_annotation", "nccl:all_reduce", None, None),
    ("user_annotation", "## forward ##", "strong", "forward"),
    ("user_annotation", "Fwd pass", "strong", "forward"),
    ("user_annotation", "step 1234: fwd of batch 99", "strong", "forward"),
    ("user_annotation", "12 h2d 345", "strong", "load_data"),
    ("user_annotation", "loss.backward()", "strong", "backward"),
    ("user_annotation", "bwd", "strong", "backward"),
    ("user_annotation", "zero grad", "strong", "zero_grad"),
    ("user_annotation", "opt.zero_grad", "strong", "zero_grad"),
    ("user_annotation", "optimiser", "strong", "optimizer"),
    ("user_annotation", "opt_step", "strong", "optimizer"),
    ("user_annotation", "clip gradients", "strong", "clipping"),
    ("user_annotation", "gradient clipping", "strong", "clipping"),
    ("user_annotation", "video clips", "aside", "other"),
    ("user_annotation", "compute_loss", "strong", "loss"),
    ("user_annotation", "criterion", "strong", "loss"),
    ("user_annotation", "glossary", "aside", "other"),
    ("user_annotation", "load data", "strong", "load_data"),
    ("user_annotation", "dataloader next", "strong", "load_data"),
    ("user_annotation", "wait_for_batch", "strong", "load_data"),
    ("user_annotation", "copy_batch_to_device", "strong", "load_data"),
    ("user_annotation", "metrics", "aside", "other"),
    ("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", "strong", "backward"),
    ("cpu_op", "AddmmBackward0", "strong", "backward"),
    ("cpu_op", "torch::autograd::CopyBackwards", "strong", "backward"),
    ("cpu_op", "CheckpointFunctionBackward", "strong", "backward"),
    ("cpu_op", "aten::convolution_backward", None, None),
    ("cpu_op", "aten::nll_loss_forward", "weak", "loss"),
    ("cpu_op", "aten::cross_entropy_loss", "weak", "loss"),
    ("cpu_op", "aten::_fused_adamw_", "weak", "optimizer"),
    ("cpu_op", "aten::_foreach_zero_", "weak", "zero_grad"),
    ("cpu_op", "aten::zero_", None, None),
    ("python_function", "/usr/lib/python3/site-packages/torch/_tensor.py(525): backward", "strong", "backward"),
    ("python_function", "torch/autograd/__init__.py(179): grad", "strong", "backward"),
    ("python_function", "torch/optim/optimizer.py(811): zero_grad", "strong", "zero_grad"),
    ("python_function", "torch/optim/adamw.py(99): step", "strong", "optimizer"),
    ("python_function", "torch/optim/adamw.py(99): _init_group", None, None),
    ("python_function", "torch/amp/grad_scaler.py(320): unscale_", "strong", "optimizer"),
    ("python_function", "torch/nn/utils/clip_grad.py(170): clip_grad_norm_", "strong", "clipping"),
    ("python_function", "train.py(12): my_clip_grad", "strong", "clipping"),
    ("python_function", "torch/utils/data/dataloader.py(625): __next__", "strong", "load_data"),
    ("python_function", "nn.Module: Linear_3", "weak", "forward"),
    ("python_function", "nn.Module: MSELoss_0", "weak", "loss"),
    ("python_function", "nn.Module: CriterionKD_0", "weak", "loss"),
    ("python_function", "torch/nn/functional.py(3029): cross_entropy", "weak", "loss"),
    ("python_function", "my/model.py(12): forward", "weak", "forward"),
    ("python_function", "torch/cuda/__init__.py(566): synchronize", "aside", "other"),
    ("python_function", "train.py(3): main", None, None),
    ("cuda_runtime", "cudaDeviceSynchronize", "aside", "other"),
    ("cuda_runtime", "cudaLaunchKernel", None, None),
]
BUCKETS = {
    ("cpu_op", "torch::autograd::AccumulateGrad"): "gradient_accumulation",
    ("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"): "gradient_accumulation",
    ("cpu_op", "c10d::allreduce_"): "communication",
    ("cpu_op", "record_param_comms"): "communication",
    ("cpu_op", "nccl:all_reduce"): "communication",
    ("user_annotation", "nccl:all_reduce"): "communication",
    ("cpu_op", "aten::mm"): None,
}
BLOCKING = {
    ("cuda_runtime", "cudaStreamSynchronize"): True,
    ("cuda_runtime", "cudaDeviceSynchronize"): True,
    ("cuda_runtime", "hipEventSynchronize"): True,
    ("cuda_runtime", "cudaMemcpy"): True,
    ("cuda_runtime", "hipMemcpyWithStream"): True,
    ("cuda_runtime", "cudaFree"): True,
    ("cuda_driver", "cuStreamSynchronize"): True,
    ("cuda_driver", "cuMemcpyDtoH_v2"): True,
    ("cuda_runtime", "cudaMemcpyAsync"): False,
    ("cuda_runtime", "cudaStreamWaitEvent"): False,
    ("cuda_runtime", "cudaFreeAsync"): False,
    ("cuda_driver", "cuLaunchKernel"): False,
}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, object]]:
    trace = TraceBuilder()
    names = {(category, name) for category, name, *_ in CASES} | set(BUCKETS) | set(BLOCKING)
    for number, (category, name) in enumerate(sorted(names)):
        trace.complete(category, name, number, number + 1)
    with every_table(trace.load(tmp_path_factory.mktemp("names"))) as tables:
        frame = tables.sql("from name_class").pl()
    return {(row["category"], row["name"]): row for row in frame.iter_rows(named=True)}


@pytest.mark.parametrize(("category", "name", "strength", "phase"), CASES)
def test_the_phase_of_a_name(
    classes: dict[tuple[str, str], dict[str, object]], category: str, name: str, strength: str | None, phase: str | None
) -> None:
    row = classes.get((category, name), {})
    found = {kind: row.get(f"{kind}_phase") for kind in ("strong", "weak", "aside")}
    assert found == {kind: phase if kind == strength else None for kind in found}


@pytest.mark.parametrize(("category", "name"), BUCKETS)
def test_the_bucket_of_a_name(classes: dict[tuple[str, str], dict[str, object]], category: str, name: str) -> None:
    assert classes.get((category, name), {}).get("bucket") == BUCKETS[category, name]


@pytest.mark.parametrize(("category", "name"), BLOCKING)
def test_calls_that_block(classes: dict[tuple[str, str], dict[str, object]], category: str, name: str) -> None:
    assert bool(classes.get((category, name), {}).get("is_sync")) is BLOCKING[category, name]


def test_nodes_and_modules(classes: dict[tuple[str, str], dict[str, object]]) -> None:
    assert {name for (_, name), row in classes.items() if row["is_node"]} == {
        "AddmmBackward0",
        "CheckpointFunctionBackward",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
        "torch::autograd::CopyBackwards",
    }
    assert {name for (_, name), row in classes.items() if row["is_module"]} == {
        name for _, name, *_ in CASES if name.startswith("nn.Module: ")
    }


def test_names_with_a_number_each_are_one_to_the_rules(tmp_path: Path) -> None:
    """To look for each of them took a quarter of a millisecond."""
    trace = TraceBuilder()
    for number in range(20_000):
        trace.op(f"aten::work{number}", number, number + 1)
    path = trace.op("aten::my_loss12345", 30_000, 30_001).write(tmp_path / "trace.json")
    begun = process_time()
    with ha.load(path) as loaded:
        assert process_time() - begun < 3.5
        with every_table(loaded) as tables:
            found = tables.sql("select name, weak_phase from name_class where weak_phase is not null").fetchall()
    assert found == [("aten::my_loss12345", "loss")]
