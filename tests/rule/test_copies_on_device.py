from pathlib import Path

from tests.rule.loop import GpuStep, found

RULE = "copies_on_device"
CAST = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::direct_copy_kernel_cuda"
    "(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}>(int)>"
)
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 3, 64, 64>(float*)"


def test_copies_casts_and_concatenation_count(tmp_path: Path) -> None:
    step = GpuStep().kernel("gemm", 100).kernel(CAST, 30, op="aten::copy_").kernel(CAT, 20, op="aten::cat")
    step.kernel("Memcpy DtoD (Device -> Device)", 10, op="aten::copy_", category="gpu_memcpy")
    assert found(step.load(tmp_path), RULE) == (3, 60, 60)


def test_copies_to_the_gpu_are_others(tmp_path: Path) -> None:
    step = GpuStep().kernel("gemm", 100)
    step.kernel("Memcpy HtoD (Pinned -> Device)", 50, op="aten::copy_", category="gpu_memcpy")
    assert found(step.load(tmp_path), RULE) is None


def test_compiled_code_keeps_its_copies(tmp_path: Path) -> None:
    step = GpuStep().kernel("gemm", 100).kernel(CAST, 50, op="aten::copy_", inside=("CompiledFunction",))
    assert found(step.load(tmp_path), RULE) is None
