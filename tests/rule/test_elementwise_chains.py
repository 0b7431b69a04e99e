from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "elementwise_chains"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array>"


def test_a_chain_takes_as_long_as_its_longest_kernel(tmp_path: Path) -> None:
    step = GpuStep().kernel(ADD, 30).kernel(ADD, 50).kernel(ADD, 20).kernel("gemm", 100).kernel(ADD, 40)
    assert found(step.load(tmp_path), RULE) == (3, 100, 50)


def test_work_between_ends_a_chain(tmp_path: Path) -> None:
    step = GpuStep().kernel(ADD, 50).kernel("gemm", 100).kernel(ADD, 50).kernel("gemm", 100)
    assert found(step.load(tmp_path), RULE) is None


def test_compiled_code_is_fused_already(tmp_path: Path) -> None:
    region = ("Torch-Compiled Region: 0/0",)
    step = GpuStep().kernel(ADD, 50, inside=region).kernel(ADD, 50, inside=region).kernel("gemm", 100)
    assert found(step.load(tmp_path), RULE) is None


def test_the_optimizer_has_advice_of_its_own(tmp_path: Path) -> None:
    step = GpuStep().kernel("gemm", 100).kernel(ADD, 50).kernel(ADD, 50)
    step.trace.annotation("Optimizer.step#SGD.step", 2, 6)
    assert found(step.load(tmp_path), RULE) is None
