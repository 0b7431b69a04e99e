"""Short names and classes of kernels. The names are real ones, of many libraries and versions."""

from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis.errors import HotlineError
from tests.trace_builder import TraceBuilder

COMMUNICATION = {
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)": "ncclAllReduceRingLLKernel_sum_f32",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, ncclWork*)": "nccl_AllReduce_RING_LL_Sum_float",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "nccl_AllReduce_Sum_bf16_RING_LL",
    "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)": "nccl_Generic",
    "void ncclDevKernel_SendRecv(ncclDevComm*)": "nccl_SendRecv",
    "ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs4K)": "nccl_AllGather_LL",
    "rcclGenericKernel<5, false>(ncclDevComm*)": "rcclGenericKernel",
    "mscclKernel_Sum_float_LL(ncclDevComm*)": "mscclKernel_Sum_float_LL",
    "void mscclpp::allreduce7<float>(float*)": "allreduce7",
    "nvshmemi_transfer_kernel(int)": "nvshmemi_transfer",
    "barrier_on_stream_kernel_threadgroup(int)": "barrier_on_stream_threadgroup",
    "void deep_ep::internode::dispatch<false, 3, false>(int4*, float*)": "dispatch",
    "_ZN7deep_ep9intranode7combineI14__nv_bfloat16EEvv": "combine",
    "hcom_allReduce_": "hcom_allReduce",
    "oneccl_allreduce_small": "oneccl_allreduce_small",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)": "cross_device_reduce_1stage",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)": "multimem_all_reduce",
    "void (anonymous namespace)::two_shot_all_reduce_kernel<float, 16, 8, false>(float*)": "two_shot_all_reduce",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<float, 8>(AllReduceParams)": "oneShotAllReduceKernel",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>(int)": (
        "allreduce_fusion_oneshot_lamport"
    ),
}
COMPUTATION = {
    "ampere_sgemm_128x64_nn": "sgemm_nn",
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel"
    "__5x_cublas": "xmma_gemm_f32f32_f32f32_f32_tn_n_ffma",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(Params)": "tensorop_s1688gemm_nn",
    "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::Mainloop<2> > >(Params)": "FlashAttnFwdSm90",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN": "gemm_BBS_tn",
    "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x32_wt32x32x8": "conv_igemm_wrw_nhwc_bf16",
    "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN": "gemm_nvjet_tst_TNN",
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib": (
        "add_rmsnorm_quant"
    ),
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> "
    ">(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)": "elementwise add",
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::(anonymous namespace)"
    "::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda(int)#1}>(int)>": (
        "elementwise direct_copy"
    ),
    "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, at::native"
    "::binary_internal::MulFunctor<float> >, at::detail::Array<char*, 2> >(int)": "elementwise Mul",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native"
    "::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, "
    "float, 4> >(int)": "reduce sum",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, "
    "long, 4, 4> >(int)": "reduce ArgMax",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
    "::TensorListMetadata<2>, at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<float, 2, 2, 0>, "
    "std::plus<float>, float>(int)": "multi_tensor_apply BinaryOpListAlpha plus",
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(int)": "gemvx::kernel",
    "triton_poi_fused_add_mul_12": "triton_poi_fused_add_mul",
    "paged_attention_v1_kernel": "paged_attention_v1",
    "my kernel": "my kernel",
    # A word inside the arguments decides nothing, nor does one that is part of another.
    "void scale<ncclDevComm>(all_reduce_args)": "scale",
    "triton_poi_fused_all_reduce_wait_3": "triton_poi_fused_all_reduce_wait",
    "void blockAllReduceSoftmax<float>(float*)": "blockAllReduceSoftmax",
    "hipblaslt_cijk": "hipblaslt_cijk",
    "accl_shuffle": "accl_shuffle",
    # not what they seem to be, and no error
    "_ZN99999999999999999999x": "_ZN99999999999999999999x",
    "_ZN4": "_ZN4",
    "<<<>>>((": "<<<>>>((",
    "": "",
}
MEMORY = {"__amd_rocclr_copyBuffer": "__amd_rocclr_copyBuffer"[2:], "__amd_rocclr_fillBufferAligned": None}
OTHER = {
    ("cpu_op", "aten::addmm"): "addmm",
    ("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0"): "autograd: AddmmBackward0",
    ("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"): "autograd: AccumulateGrad",
    ("python_function", "/usr/lib/torch/nn/modules/conv.py(459): forward"): "conv.py(459): forward",
    ("python_function", "<built-in method conv2d of type object at 0x7f4f7dff0640>"): "built-in conv2d",
    ("python_function", "nn.Module: Conv2d_3"): "Conv2d_3",
    ("cuda_runtime", "cudaLaunchKernel"): "cudaLaunchKernel",
    ("user_annotation", "## forward ##"): "## forward ##",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[str, str | None]]:
    trace = TraceBuilder()
    for number, name in enumerate([*COMMUNICATION, *COMPUTATION, *MEMORY]):
        trace.kernel(name, number, number + 1)
    for number, (category, name) in enumerate(OTHER):
        trace.complete(category, name, number, number + 1)
    trace.copy(0, 1, kind="HtoD").gpu("gpu_memcpy", "ncclDevKernel_Copy", 2, 3).memset(4, 5)
    rows = trace.load(tmp_path_factory.mktemp("names")).table("name_info")
    return {(row["category"], row["name"]): (row["short_name"], row["class"]) for row in rows.iter_rows(named=True)}


@pytest.mark.parametrize(
    ("kind", "cases"), [("communication", COMMUNICATION), ("computation", COMPUTATION), ("memory", MEMORY)]
)
def test_kernels(names: dict[tuple[str, str], tuple[str, str | None]], kind: str, cases: dict[str, str | None]) -> None:
    for name, short in cases.items():
        assert names["kernel", name] == (names["kernel", name][0] if short is None else short, kind)


def test_copies_are_memory_by_category(names: dict[tuple[str, str], tuple[str, str | None]]) -> None:
    assert names["gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"] == ("Memcpy HtoD (Pageable -> Device)", "memory")
    assert names["gpu_memcpy", "ncclDevKernel_Copy"] == ("ncclDevKernel_Copy", "memory")
    assert names["gpu_memset", "Memset (Device)"] == ("Memset (Device)", "memory")


def test_other_events_have_no_class(names: dict[tuple[str, str], tuple[str, str | None]]) -> None:
    assert {key: names[key] for key in OTHER} == {key: (short, None) for key, short in OTHER.items()}


def test_every_name_has_one_row(names: dict[tuple[str, str], tuple[str, str | None]]) -> None:
    assert len(names) == len(COMMUNICATION) + len(COMPUTATION) + len(MEMORY) + len(OTHER) + 3


def two_ranks(folder: Path) -> Path:
    for rank in (0, 1):
        trace = TraceBuilder(rank=rank).kernel("my_ring", 0, 1).kernel("my_ring_copy", 1, 2)
        trace.kernel("ncclDevKernel_Generic", 2, 3).write(folder / f"rank{rank}.json")
    return folder


@pytest.mark.usefixtures("in_processes")
def test_users_classes_come_first(tmp_path: Path) -> None:
    given = {"^my_ring_copy": "memory", "^my_ring": "communication", "Generic": "computation"}
    expected = {"my_ring": "communication", "my_ring_copy": "memory", "ncclDevKernel_Generic": "computation"}
    with ha.load(two_ranks(tmp_path), kernel_classes=given) as trace:
        found = trace.table("name_info")
        assert found.select("rank", "name", "class").rows() == [
            (rank, name, expected[name]) for rank in (0, 1) for name in sorted(expected)
        ]
        assert trace.table("kernel_class").filter(rank=0).select("pattern", "class").rows() == list(given.items())
    table = tmp_path / "classes.csv"
    table.write_text("pattern,class\n" + "".join(f"{pattern},{kind}\n" for pattern, kind in given.items()))
    with ha.load(tmp_path / "rank0.json", kernel_classes=table) as trace:
        assert dict(trace.table("name_info").select("name", "class").rows()) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": "network"}, "'network' is not a class of kernels"),
        ({"(": "memory"}, "not a regular expression"),
        ("missing.csv", "cannot read missing.csv"),
    ],
)
def test_wrong_classes(tmp_path: Path, given: dict[str, str] | str, message: str) -> None:
    path = TraceBuilder().kernel("a", 0, 1).write(tmp_path / "trace.json")
    with pytest.raises(HotlineError, match=message):
        ha.load(path, kernel_classes=given)


def test_a_table_without_the_right_columns(tmp_path: Path) -> None:
    path = TraceBuilder().kernel("a", 0, 1).write(tmp_path / "trace.json")
    for text in ("name;class\na;memory\n", "a,memory\n", "", "pattern,class\na\n"):
        (tmp_path / "classes.csv").write_text(text)
        with pytest.raises(HotlineError, match=r"not a table of kernel classes Hint: .* first line: pattern,class"):
            ha.load(path, kernel_classes=tmp_path / "classes.csv")


def test_a_table_as_spreadsheets_write_it(tmp_path: Path) -> None:
    path = TraceBuilder().kernel("a", 0, 1).write(tmp_path / "trace.json")
    (tmp_path / "classes.csv").write_bytes("\ufeffclass,pattern\r\nmemory,a\r\n\r\n".encode())
    with ha.load(path, kernel_classes=tmp_path / "classes.csv") as trace:
        assert trace.sql("select class from name_info where name = 'a'")["class"].to_list() == ["memory"]


def test_a_run_keeps_its_classes(tmp_path: Path) -> None:
    run = ha.import_traces(TraceBuilder().kernel("a", 0, 1).write(tmp_path / "trace.json"), tmp_path / "run")
    with pytest.raises(HotlineError, match="already imported"):
        ha.load(run, kernel_classes={"a": "memory"})


# What the libraries' names say of a kernel of matrix products: unit and precision.
UNITS = {
    "ampere_sgemm_128x64_nn": ("vector", "fp32"),
    "void cutlass::Kernel<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(Params)": ("vector", "fp32"),
    "volta_scudnn_128x64_relu_medium_nn_v1": ("vector", "fp32"),
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(Params)": ("matrix", "tf32"),
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16": ("matrix", "tf32"),
    "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(Params)": ("matrix", "bf16"),
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_tn": ("matrix", "fp16"),
    "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn": ("matrix", "fp16"),
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64": ("matrix", "bf16"),
    "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN": ("matrix", "bf16"),
    "nvjet_hsh_128x256_64x4_2x1_v_bz_TNT": ("matrix", "fp16"),
    "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::Mainloop<2> > >(Params)": ("matrix", None),
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN": ("matrix", "bf16"),
    "Cijk_Ailk_Bljk_SB_MT128x128x16_MI16x16x1_SN": ("matrix", "fp32"),
    "Cijk_Ailk_Bljk_HHS_BH_MT128x64x32_MI32x32x8": ("matrix", "fp16"),
    "Cijk_Ailk_Bljk_SB_MT64x64x8_SN_1LDSB0": ("vector", "fp32"),
    "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x32_wt32x32x8": ("matrix", "bf16"),
    "Cijk_Ailk_Bljk_I8II_BH_MT64x64x16_MI16x16x1_SN": ("matrix", "int8"),
    "void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipeline> >(Args)": ("matrix", None),
    "ampere_gcgemm_64x64_nt": ("vector", "fp32"),
    "ampere_dgemm_128x64_tn": ("vector", "fp64"),
    "volta_d884gemm_64x64_nt": ("matrix", "fp64"),
    "volta_hgemm_128x64_nn": ("vector", "fp16"),
    "volta_h884gemm_128x64_nn": ("matrix", "fp16"),
    "void gemmk1_kernel<float, 256, 5, false, cublasGemvTensorStridedBatched<float const> >(int)": ("vector", None),
    # CUTLASS, mangled by the compiler
    "_ZN13cutlass_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS_10tfloat32_tENS_6layout40ColumnMajorTensorOp"
    "MultiplicandCongruousILi32ELi32EEEEEEEvNT_6ParamsE": ("matrix", "tf32"),
    "_ZN7cutlass6KernelINS_4gemm6kernel4GemmINS_10bfloat16_tENS_6layout38RowMajorTensorOpMultiplicandCrosswiseILi16ELi64"
    "EEEEEEEvNT_6ParamsE": ("matrix", "bf16"),
    "void cutlass::Kernel<cutlass::reduction::kernel::ReduceSplitK<cutlass::MatrixShape<4, 128> > >(Params)": (
        None,
        None,
    ),
    "void cudnn::cnn::reduce_wgrad_nchw_helper<float, float>(void*, void const*, float, int, int)": (None, None),
    "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits>(Params)": ("matrix", None),
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<2u, 16u>(Params)": ("vector", None),
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(int)": (None, None),
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)": (None, None),
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array>(int)": (None, None),
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 32, true, 1>(int)": (None, None),
}


def test_units_of_matrix_products(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).op("aten::mm", 0, 5)
    for number, name in enumerate(UNITS):
        trace.kernel(name, 10 + number, 11 + number)
    found = trace.load(tmp_path).sql("select name, unit, precision from name_info where category = 'kernel'").rows()
    assert {name: (unit, precision) for name, unit, precision in found} == UNITS
