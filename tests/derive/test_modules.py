"""Modules: calls, tree, autograd nodes, segments and spans."""

from pathlib import Path

from hotline_analysis import Trace
from tests.derive.tables import every_table, named
from tests.trace_builder import TraceBuilder


def tree(trace: Trace) -> list[tuple[int, int | None, int, str]]:
    found: list[tuple[int, int | None, int, str]] = trace.sql(
        "select module_id, parent_id, depth, path from model_op order by module_id"
    ).rows()
    return found


def spans(trace: Trace) -> list[tuple[str, int, str, float, float]]:
    """Path, call, pass, start and end in us, in order of time."""
    found: list[tuple[str, int, str, float, float]] = trace.sql(
        "select path, call, pass, start_ns / 1000, end_ns / 1000"
        " from module_span inner join model_op using (rank, module_id) order by start_ns, model_op.depth"
    ).rows()
    return found


def labels(trace: Trace) -> dict[str, tuple[object, ...]]:
    """Of CPU ops and kernels, by name: module path, pass, bucket, evidence."""
    return named(
        trace, "annotated_event where category in ('cpu_op', 'kernel')", ("module_path", "pass", "bucket", "evidence")
    )


def test_modules_are_numbered_in_order_of_execution(tmp_path: Path) -> None:
    trace = TraceBuilder().module("Net", 0, 0, 100)
    trace.module("Block", 0, 10, 50).module("Conv2d", 0, 12, 20).module("ReLU", 0, 22, 30)
    trace.module("Linear", 0, 60, 80)
    opened = trace.load(tmp_path)
    assert tree(opened) == [
        (0, None, 0, "Net_0"),
        (1, 0, 1, "Net_0.Block_0"),
        (2, 1, 2, "Net_0.Block_0.Conv2d_0"),
        (3, 1, 2, "Net_0.Block_0.ReLU_0"),
        (4, 0, 1, "Net_0.Linear_0"),
    ]
    assert opened.sql("select name, type from model_op where module_id = 2").row(0) == ("Conv2d_0", "Conv2d")


def test_an_instance_that_is_called_twice_is_one_module_with_two_calls(tmp_path: Path) -> None:
    trace = TraceBuilder().module("Net", 0, 0, 100)
    trace.module("ReLU", 0, 10, 20).op("first", 12, 15).module("ReLU", 0, 30, 40).op("second", 32, 35)
    trace.op("beside", 50, 60)
    opened = trace.load(tmp_path)
    assert tree(opened) == [(0, None, 0, "Net_0"), (1, 0, 1, "Net_0.ReLU_0")]
    assert spans(opened) == [
        ("Net_0", 0, "forward", 0, 100),
        ("Net_0.ReLU_0", 0, "forward", 10, 20),
        ("Net_0.ReLU_0", 1, "forward", 30, 40),
    ]
    assert labels(opened) == {
        "first": ("Net_0.ReLU_0", "forward", "module", "nn_module"),
        "second": ("Net_0.ReLU_0", "forward", "module", "nn_module"),
        "beside": ("Net_0", "forward", "module", "nn_module"),
    }


def test_a_module_reused_under_another_parent_stays_where_it_was_first(tmp_path: Path) -> None:
    trace = TraceBuilder().module("Net", 0, 0, 100)
    trace.module("Encoder", 0, 10, 40).module("Embedding", 0, 12, 20)
    trace.module("Decoder", 0, 50, 90).module("Embedding", 0, 52, 60).op("shared", 53, 55)
    opened = trace.load(tmp_path)
    assert [path for *_, path in tree(opened)] == [
        "Net_0",
        "Net_0.Encoder_0",
        "Net_0.Encoder_0.Embedding_0",
        "Net_0.Decoder_0",
    ]
    assert labels(opened)["shared"] == ("Net_0.Encoder_0.Embedding_0", "forward", "module", "nn_module")
    assert [span for span in spans(opened) if span[0].endswith("Embedding_0")] == [
        ("Net_0.Encoder_0.Embedding_0", 0, "forward", 12, 20),
        ("Net_0.Encoder_0.Embedding_0", 1, "forward", 52, 60),
    ]


def test_a_module_that_calls_itself_is_one_module(tmp_path: Path) -> None:
    trace = TraceBuilder().module("Tree", 0, 0, 100).module("Tree", 0, 10, 50).op("leaf", 20, 30)
    opened = trace.load(tmp_path)
    assert tree(opened) == [(0, None, 0, "Tree_0")]
    assert labels(opened)["leaf"][0] == "Tree_0"


def test_frames_between_modules_do_not_break_the_tree(tmp_path: Path) -> None:
    trace = TraceBuilder().module("Net", 0, 0, 100).frame("net.py(3): forward", 1, 99)
    trace.frame("torch/nn/modules/module.py(1501): _call_impl", 2, 98).module("Linear", 0, 10, 90)
    trace.frame("torch/nn/modules/linear.py(114): forward", 12, 88).op("addmm", 20, 30)
    assert labels(trace.load(tmp_path)) == {"addmm": ("Net_0.Linear_0", "forward", "module", "nn_module")}


def test_two_threads_call_modules_at_the_same_time(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for tid in (1, 2):
        trace.on(tid).module("Net", tid, 0, 100).module("Linear", tid, 10, 90).op(f"op{tid}", 20, 30)
    opened = trace.load(tmp_path)
    assert {name: row[0] for name, row in labels(opened).items()} == {"op1": "Net_1.Linear_1", "op2": "Net_2.Linear_2"}


def forward() -> TraceBuilder:
    """Net(Linear 0, ReLU 0): ops of sequence numbers 5 and 6, then the loss with 7."""
    trace = TraceBuilder().step(0, 0, 400).module("Net", 0, 0, 100)
    trace.module("Linear", 0, 10, 50).op("aten::addmm", 20, 40, seq=5)
    trace.module("ReLU", 0, 60, 90).op("aten::relu", 65, 80, seq=6)
    return trace.op("aten::mse_loss", 110, 120, seq=7)


def test_backward_belongs_to_the_module_whose_forward_has_its_sequence_number(tmp_path: Path) -> None:
    trace = forward().on(2)
    trace.backward("MseLossBackward0", 200, 210, seq=7).launches("loss_grad", 230, 240)
    trace.backward("ReluBackward0", 210, 220, seq=6).launches("relu_grad", 240, 250)
    trace.backward("AddmmBackward0", 220, 250, seq=5).op("aten::mm", 225, 240).launches("gemm_grad", 250, 290)
    found = labels(trace.load(tmp_path))
    relu = ("Net_0.ReLU_0", "backward", "module", "sequence_number")
    linear = ("Net_0.Linear_0", "backward", "module", "sequence_number")
    loss = (None, None, "loss", None)
    assert {name: row for name, row in found.items() if name.endswith("_grad")} == {
        "loss_grad": loss,
        "relu_grad": relu,
        "gemm_grad": linear,
    }
    assert found["autograd::engine::evaluate_function: ReluBackward0"] == relu
    assert found["AddmmBackward0"] == found["aten::mm"] == linear


def test_backward_spans_are_runs_of_nodes_of_one_module(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 400).module("Net", 0, 0, 100)
    trace.module("Linear", 0, 10, 50).op("aten::t", 15, 18, seq=4).op("aten::addmm", 20, 40, seq=5)
    trace.module("ReLU", 0, 60, 90).op("aten::relu", 65, 80, seq=6)
    trace.on(2).backward("ReluBackward0", 210, 220, seq=6)
    trace.backward("AddmmBackward0", 230, 250, seq=5).backward("TBackward0", 250, 260, seq=4)
    assert [span for span in spans(trace.load(tmp_path)) if span[2] == "backward"] == [
        ("Net_0.ReLU_0", 0, "backward", 210, 220),
        ("Net_0.Linear_0", 0, "backward", 230, 260),
    ]


def test_of_ops_that_share_a_number_the_last_to_start_creates_the_node(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 400).module("Net", 0, 0, 100)
    # `detach` and `empty` carry the number of the next node, but create none.
    trace.module("Dropout", 0, 10, 20).op("aten::detach", 12, 15, seq=5)
    trace.module("Linear", 0, 30, 50).op("aten::linear", 32, 48, seq=5).op("aten::addmm", 35, 45, seq=5)
    trace.on(2).backward("AddmmBackward0", 200, 210, seq=5)
    opened = trace.load(tmp_path)
    with every_table(opened) as tables:
        found = tables.sql(
            "select distinct forward.name, node.evidence from node"
            " inner join event as forward on node.forward_id = forward.event_id"
        ).fetchall()
    assert found == [("aten::addmm", "sequence_number")]
    assert labels(opened)["AddmmBackward0"][0] == "Net_0.Linear_0"


def test_numbers_of_two_forward_threads_are_told_apart(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 400)
    for tid, number in ((1, 5), (3, 5)):
        trace.on(tid).module("Net", tid, 0, 100).op(f"aten::op{tid}", 20, 40, seq=number)
        trace.op(f"aten::more{tid}", 50, 60, seq=number + tid)
    # Thread numbers of the profiler are its own: here 1 is tid 3 and 2 is tid 1.
    trace.on(2).backward("ABackward0", 200, 210, seq=8, forward_thread=1).backward(
        "BBackward0", 210, 220, seq=5, forward_thread=1
    )
    trace.backward("CBackward0", 220, 230, seq=6, forward_thread=2).backward(
        "DBackward0", 230, 240, seq=5, forward_thread=2
    )
    found = {name: row[0] for name, row in labels(trace.load(tmp_path)).items()}
    assert {name: path for name, path in found.items() if name.endswith("Backward0") and ":" not in name} == {
        "ABackward0": "Net_3",
        "BBackward0": "Net_3",
        "CBackward0": "Net_1",
        "DBackward0": "Net_1",
    }


def test_a_number_that_comes_again_means_the_latest_forward(tmp_path: Path) -> None:
    """A process that profiles two runs counts from 0 twice; a forward after the node cannot have created it."""
    trace = TraceBuilder().step(0, 0, 1000)
    trace.module("Linear", 0, 0, 50).op("aten::a", 10, 20, seq=5)
    trace.on(2).backward("ABackward0", 100, 110, seq=5)
    trace.on(1).module("Linear", 1, 200, 250).op("aten::b", 210, 220, seq=5)
    trace.on(2).backward("BBackward0", 300, 310, seq=5)
    found = labels(trace.load(tmp_path))
    assert (found["ABackward0"][0], found["BBackward0"][0]) == ("Linear_0", "Linear_1")


def created_by(trace: TraceBuilder, nodes: list[str], folder: Path) -> list[int]:
    """The starts of the forward ops that the nodes of a backward pass without numbers are matched with, in order."""
    for number, node in enumerate(nodes):
        at = 500 + 20 * number
        trace.on(2).op(f"autograd::engine::evaluate_function: {node}", at, at + 10).op(node, at + 1, at + 9)
    with every_table(trace.load(folder)) as tables:
        found = tables.sql(
            "select event.start_ns // 1000 from node inner join event on node.forward_id = event.event_id"
            " where node.depth = 0 order by node.start_ns"
        ).fetchall()
    return [at for (at,) in found]


def test_inside_an_op_that_creates_a_node_no_other_is_created(tmp_path: Path) -> None:
    """A layer norm reshapes its input out of autograd's sight; a linear is a name for ops that each have a node."""
    trace = TraceBuilder().step(0, 0, 900)
    trace.op("aten::native_layer_norm", 10, 40).op("aten::view", 20, 30)
    trace.op("aten::linear", 50, 100).op("aten::view", 55, 60).op("aten::addmm", 65, 95).op("aten::expand", 70, 80)
    trace.op("aten::mul", 110, 130).op("aten::mul", 115, 125)
    trace.op("aten::expand", 140, 150)
    nodes = ["ExpandBackward0", "MulBackward0", "AddmmBackward0", "ViewBackward0", "NativeLayerNormBackward0"]
    assert created_by(trace, nodes, tmp_path) == [140, 110, 65, 55, 10]


def test_targets_that_are_reshaped_like_outputs_have_no_node(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 900)
    trace.op("aten::linear", 10, 50).op("aten::addmm", 20, 30).op("aten::view", 35, 45)
    trace.op("aten::flatten", 60, 70).op("aten::view", 62, 68)
    trace.op("aten::flatten", 80, 90).op("aten::view", 82, 88)
    trace.op("aten::mse_loss", 100, 110)
    nodes = ["MseLossBackward0", "ViewBackward0", "ViewBackward0", "AddmmBackward0"]
    assert created_by(trace, nodes, tmp_path) == [100, 62, 35, 20]


def test_parametrized_modules_of_one_number_are_told_apart(tmp_path: Path) -> None:
    """Each has a class of its own, so the profiler numbers all of them 0."""
    trace = TraceBuilder().step(0, 0, 400).module("Net", 0, 0, 300)
    for number, at in ((0, 10), (1, 60), (0, 110)):
        trace.module("ParametrizedConv1d", 0, at, at + 40).module("ParametrizationList", number, at + 5, at + 20)
        trace.op(f"weight_{at}", at + 6, at + 12).op(f"aten::conv1d_{at}", at + 25, at + 35)
    opened = trace.load(tmp_path)
    found = labels(opened)
    assert [found[f"aten::conv1d_{at}"][0] for at in (10, 60, 110)] == [
        "Net_0.ParametrizedConv1d_0",
        "Net_0.ParametrizedConv1d_1",
        "Net_0.ParametrizedConv1d_0",
    ]
    parents = opened.sql(
        "select model_op.name, parent.name from model_op inner join model_op as parent"
        " on model_op.parent_id = parent.module_id where model_op.type = 'ParametrizationList' order by 1"
    ).rows()
    assert parents == [
        ("ParametrizationList_0", "ParametrizedConv1d_0"),
        ("ParametrizationList_1", "ParametrizedConv1d_1"),
    ]


def test_without_numbers_the_flow_from_forward_to_backward_tells(tmp_path: Path) -> None:
    trace = (
        TraceBuilder().step(0, 0, 400).module("Net", 0, 0, 100).module("Linear", 0, 10, 50).op("aten::addmm", 20, 40)
    )
    trace.on(2).op("AddmmBackward0", 200, 220).launches("gemm_grad", 230, 240)
    trace.flow("fwdbwd", 1, (20, 1), (200, 2))
    found = labels(trace.load(tmp_path))
    assert found["AddmmBackward0"] == ("Net_0.Linear_0", "backward", "module", "flow")
    assert found["gemm_grad"] == ("Net_0.Linear_0", "backward", "module", "flow")


def test_a_flow_from_forward_whose_number_is_used_again(tmp_path: Path) -> None:
    """Each node belongs to the last op before it that starts an arrow of its number."""
    trace = TraceBuilder().step(0, 0, 900).module("Net", 0, 0, 450)
    for number, at in ((0, 10), (1, 310)):
        trace.module("Linear", number, at, at + 50).op(f"aten::addmm{number}", at + 10, at + 40)
    for number, at in ((0, 200), (1, 600)):
        trace.on(2).op(f"AddmmBackward{number}", at, at + 20)
        trace.flow("fwdbwd", 1, (20 + 300 * number, 1), (at, 2))
    found = labels(trace.load(tmp_path))
    assert [found[f"AddmmBackward{number}"][0] for number in (0, 1)] == ["Net_0.Linear_0", "Net_0.Linear_1"]


def test_a_node_without_a_forward_has_no_module(tmp_path: Path) -> None:
    trace = forward().on(2).backward("StrangeBackward0", 200, 210, seq=99).launches("strange", 220, 230)
    assert labels(trace.load(tmp_path))["strange"] == (None, None, "backward", None)


def test_gradient_accumulation_and_the_loss_have_buckets(tmp_path: Path) -> None:
    trace = forward().on(2)
    trace.backward("MseLossBackward0", 200, 210, seq=7).launches("loss_grad", 230, 240)
    trace.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 220, 230)
    trace.op("torch::autograd::AccumulateGrad", 221, 229).op("aten::add_", 222, 228).launches("accumulate", 240, 250)
    found = labels(trace.load(tmp_path))
    assert found["loss_grad"] == (None, None, "loss", None)
    assert found["accumulate"] == (None, None, "gradient_accumulation", None)
    assert found["aten::mse_loss"] == (None, None, "loss", None)


def test_a_module_call_inside_a_node_is_recomputed_forward(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 400).module("Net", 0, 0, 100)
    trace.frame("torch/utils/checkpoint.py(489): checkpoint", 5, 60)
    trace.op("CheckpointFunction", 8, 58, seq=5).module("Linear", 0, 10, 50).op("aten::addmm", 20, 40)
    trace.launches("gemm", 60, 70)
    trace.on(2).backward("CheckpointFunctionBackward", 200, 300, seq=5)
    trace.module("Linear", 0, 210, 230).op("aten::addmm again", 212, 228, seq=1).launches("gemm again", 240, 250)
    trace.backward("AddmmBackward0", 240, 260, seq=1, forward_thread=2).launches("gemm_grad", 260, 270)
    opened = trace.load(tmp_path)
    found = labels(opened)
    assert found["gemm"] == ("Net_0.Linear_0", "forward", "module", "nn_module")
    assert found["gemm again"] == ("Net_0.Linear_0", "recompute", "module", "nn_module")
    assert found["gemm_grad"] == ("Net_0.Linear_0", "backward", "module", "sequence_number")
    assert [span[:3] for span in spans(opened) if "Linear" in span[0]] == [
        ("Net_0.Linear_0", 0, "forward"),
        ("Net_0.Linear_0", 0, "recompute"),
    ]


def test_backward_called_inside_a_module_is_not_the_modules_own_work(tmp_path: Path) -> None:
    """A node counts to what created it, not to the code that runs it: here a trainer written as a module."""
    trace = TraceBuilder().step(0, 0, 400).module("Trainer", 0, 0, 390).module("Linear", 0, 10, 50)
    trace.op("aten::addmm", 20, 40, seq=5).op("aten::sum", 60, 70, seq=6)
    trace.backward("SumBackward0", 100, 110, seq=6).backward("AddmmBackward0", 110, 120, seq=5)
    trace.backward("UnknownBackward0", 120, 130, seq=77)
    found = labels(trace.load(tmp_path))
    assert found["AddmmBackward0"] == ("Trainer_0.Linear_0", "backward", "module", "sequence_number")
    assert found["SumBackward0"] == ("Trainer_0", "backward", "module", "sequence_number")
    assert found["UnknownBackward0"][0] is None


def test_a_trace_without_modules(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::mm", 10, 20, seq=1).on(2).backward("MmBackward0", 50, 60, seq=1)
    opened = trace.load(tmp_path)
    assert tree(opened) == []
    assert spans(opened) == []
    assert {row[0] for row in labels(opened).values()} == {None}


def test_the_longest_own_event_is_gpu_work_if_there_is_any(tmp_path: Path) -> None:
    """`module_time`: a kernel of 5 us before an op of 40 us, and the call of a module without GPU work."""
    trace = TraceBuilder().module("Net", 0, 0, 200).module("Block", 0, 5, 150)
    trace.module("Linear", 0, 10, 60).op("mm", 12, 52).launches("gemm", 15, 20).launches("short", 30, 32)
    trace.module("ReLU", 0, 70, 100).op("relu", 72, 90)
    found = trace.load(tmp_path).sql(
        "select path, event_name, longest_ns // 1000, longest_is_gpu"
        " from module_time inner join model_op using (rank, module_id)"
        " left join (select event_id, name as event_name from event) as longest on longest_id = longest.event_id"
        " order by path"
    )
    assert found.rows() == [
        ("Net_0", "nn.Module: Net_0", 200, False),
        ("Net_0.Block_0", "nn.Module: Block_0", 145, False),
        ("Net_0.Block_0.Linear_0", "gemm", 5, True),
        ("Net_0.Block_0.ReLU_0", "nn.Module: ReLU_0", 30, False),
    ]
