"""FLOP of small models, captured on the CPU, beside `torch.utils.flop_counter`: equal, or it is known why not.

Where torch 2.13's counter is wrong or silent:

- the gradient of the weight of a grouped convolution is not divided by the groups (`GROUPED`), also of a transposed one
- attention on the CPU, `mv`, `addmv`, `dot`, `addbmm` and LSTM count nothing
- causal attention counts in full, and its backward always five products, of which the model needs four
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count  # noqa: E402

import hotline_analysis as ha  # noqa: E402

Rows = list[tuple[str, int, int, int]]

WORK = """
    select event.name, sum(matrix_flop)::bigint, sum(model_flop)::bigint, sum(dense_flop)::bigint
    from op_work
    inner join event using (rank, event_id)
    where is_outermost and matrix_flop > 0
    group by event.name
"""


def counter(run: Callable[[], object]) -> dict[str, int]:
    """FLOP by op, as torch counts them."""
    with FlopCounterMode(display=False) as found:
        run()
    return {str(op).replace(".", "::"): flop for op, flop in found.get_flop_counts().get("Global", {}).items()}


def ours(run: Callable[[], object], folder: Path) -> Rows:
    """Name, matrix, model and dense FLOP of each op that multiplies, as the profiler records it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        run()
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    with ha.load(path) as trace:
        return trace.sql(WORK).rows()


def matrix_flop(rows: Rows) -> dict[str, int]:
    return {name: flop for name, flop, _, _ in rows}


class Block(nn.Module):
    """The basic block of ResNet-18 (He et al. 2015)."""

    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(given, made, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(made) for _ in range(2))
        self.short = nn.Sequential()
        if given != made:
            self.short = nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norms[0](self.first(x)).relu()
        made: Tensor = self.norms[1](self.second(inner)) + self.short(x)
        return made.relu()


def resnet18() -> nn.Sequential:
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [Block(given, made, 1 if given == made else 2) for given, made in pairwise(widths)]
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def trained(model: nn.Module, *shape: int) -> Callable[[], object]:
    given = torch.randn(*shape, requires_grad=True)
    return lambda: model(given).sum().backward()


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8, bias=False)), (4, 16)),
    "three dimensions": (lambda: nn.Linear(16, 32), (2, 5, 16)),
    "cnn": (
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8, 4, 3, dilation=2, padding=(2, 3), bias=False), nn.Flatten(), nn.LazyLinear(5)),
        ),
        (2, 3, 16, 20),
    ),
    "one and three axes": (
        lambda: nn.Sequential(nn.Conv1d(4, 6, 5, stride=3), nn.Unflatten(1, (1, 2, 3)), nn.Conv3d(1, 2, (2, 2, 3))),
        (2, 4, 40),
    ),
    "transposed": (lambda: nn.ConvTranspose2d(6, 8, 3, stride=2, padding=1, output_padding=1), (2, 6, 8, 8)),
    "resnet18": (lambda: resnet18().eval(), (1, 3, 64, 64)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.sampled
def test_forward_and_backward_are_those_of_torch(name: str, tmp_path: Path) -> None:
    made, shape = MODELS[name]
    run = trained(made(), *shape)
    run()  # lazy layers take their shape
    found = ours(run, tmp_path)
    assert matrix_flop(found) == counter(run)
    assert all(matrix == model == dense for _, matrix, model, dense in found)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.sampled
def test_a_capture_without_shapes_has_the_flop_of_torch(name: str, tmp_path: Path) -> None:
    """The shapes are those of the pass before the recording, which runs without `record_shapes`."""
    made, shape = MODELS[name]
    model = made()
    run = trained(model, *shape)
    run()
    count = counter(run)
    handler = ha.analyze(model, tmp_path / "run.hotline", report_format=None, when="now")
    plan = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1)
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], schedule=plan, on_trace_ready=handler) as profiler:
        for _ in range(2):
            run()
            profiler.step()
    with ha.load(tmp_path / "run.hotline") as trace:
        assert trace.sql("select count(*) from op where input_dims is not null").item() == 0
        found = trace.sql(WORK).rows()
    assert matrix_flop(found) == count


def test_products_are_those_of_torch(tmp_path: Path) -> None:
    a, b, c = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    shared = torch.randn(1, 4, 5).expand(2, 4, 5)

    def run() -> None:
        torch.bmm(a, b)
        torch.bmm(a, shared)
        torch.baddbmm(c, a, b, beta=0)
        torch.baddbmm(c, a, b)
        torch.addmm(c[0], a[0], b[0], beta=0.5)
        torch.einsum("bij,bjk->bik", a, b)
        torch.matmul(a, b[0])

    assert matrix_flop(ours(run, tmp_path)) == counter(run)


def test_resnet18_has_the_published_figure(tmp_path: Path) -> None:
    """1.814 billion multiply-adds for an image of 224x224: "1.8 × 10^9" in table 1 of He et al. 2015."""
    model, image = resnet18().eval(), torch.randn(1, 3, 224, 224)
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_689_512
    with torch.no_grad():
        flop = sum(matrix_flop(ours(lambda: model(image), tmp_path)).values())
    assert flop == 2 * 1_814_073_344


GROUPED = nn.Conv2d(64, 64, 3, padding=1, groups=32, bias=False)


def test_torch_counts_too_much_for_the_weights_of_groups(tmp_path: Path) -> None:
    """64 channels in 32 groups: 2 of each output's 64 inputs, and the gradients take two times the forward.

    Proved by the definition: as many multiply-adds as 32 convolutions of 2 channels, one after the other.
    """
    given = torch.randn(2, 64, 16, 16, requires_grad=True)
    parts = nn.ModuleList(nn.Conv2d(2, 2, 3, padding=1, bias=False) for _ in range(32))

    def alone() -> None:
        whole = torch.cat([part(given[:, 2 * at : 2 * at + 2]) for at, part in enumerate(parts)], 1)
        whole.sum().backward()

    def grouped() -> None:
        GROUPED(given).sum().backward()

    true, wrong = counter(alone), counter(grouped)
    found = matrix_flop(ours(grouped, tmp_path))
    assert found == true
    assert found == {"aten::convolution": 1_179_648, "aten::convolution_backward": 2_359_296}
    assert wrong == {"aten::convolution": 1_179_648, "aten::convolution_backward": 38_928_384}
    assert 38_928_384 == 1_179_648 + 32 * 1_179_648  # the gradient of the input is right


def test_torch_counts_too_much_for_groups_of_a_transposed_convolution(tmp_path: Path) -> None:
    model = nn.ConvTranspose2d(6, 8, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False)
    run = trained(model, 2, 6, 8, 8)
    forward = 2 * (2 * 6 * 8 * 8) * 4 * 9
    assert matrix_flop(ours(run, tmp_path)) == {"aten::convolution": forward, "aten::convolution_backward": 2 * forward}
    assert counter(run)["aten::convolution_backward"] == forward + 2 * forward


ATTENTION = "aten::_scaled_dot_product_flash_attention_for_cpu"
SHAPES = {"square": ((2, 4, 10, 16), (2, 4, 10, 16)), "long": ((2, 4, 6, 16), (2, 4, 20, 16))}


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sampled
def test_attention_is_that_of_its_parts(shape: str, is_causal: bool, tmp_path: Path) -> None:
    """Torch counts no attention on the CPU, but the products that it is made of, and it has the formula."""
    given, other = SHAPES[shape]
    q, k, v = (torch.randn(*size, requires_grad=True) for size in (given, other, other))

    def run() -> None:
        made = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        made.sum().backward()  # type: ignore[no-untyped-call]

    found = {name: flop for name, *flop in ours(run, tmp_path)}
    assert counter(run) == {}
    with sdpa_kernel(SDPBackend.MATH):
        parts = sum(counter(run).values())
    dense = sdpa_flop_count(given, other, other)  # type: ignore[no-untyped-call]
    backward = sdpa_backward_flop_count(given, given, other, other)  # type: ignore[no-untyped-call]
    # Its parts keep the weights, so their backward makes no product twice.
    assert (parts, backward) == (3 * dense, dense * 5 // 2)
    queries, keys = given[2], other[2]
    seen = torch.ones(queries, keys).tril() if is_causal else torch.ones(queries, keys)
    pairs = int(seen.sum())

    def done(flop: int) -> int:
        return flop * pairs // (queries * keys)

    assert found == {
        ATTENTION: [done(dense), done(dense), dense],
        f"{ATTENTION}_backward": [done(backward), done(2 * dense), 2 * dense],
    }


def test_what_torch_is_silent_about(tmp_path: Path) -> None:
    a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)

    def run() -> None:
        torch.mv(a[0], b[0, :, 0])
        torch.addmv(torch.ones(3), a[0], b[0, :, 0])
        torch.dot(a[0, 0], b[0, :, 0])
        torch.addbmm(torch.ones(3, 5), a, b)

    assert counter(run) == {}
    assert matrix_flop(ours(run, tmp_path)) == {
        **{"aten::mv": 24, "aten::addmv": 24, "aten::dot": 8, "aten::addbmm": 2 * 2 * 3 * 4 * 5},
    }


def test_an_lstm_on_the_cpu(tmp_path: Path) -> None:
    """It is one op of oneDNN for each layer and direction, of which torch counts nothing.

    Each of 6 steps of 2 sequences multiplies 5 inputs and 7 states, and in the second layer the 14 states of both
    directions and 7 states, with the weights of 4 gates of 7 states; backward makes two products for each.
    """
    model, given = nn.LSTM(5, 7, num_layers=2, bidirectional=True), torch.randn(6, 2, 5)
    forward = sum(2 * 6 * 2 * 4 * 7 * (inputs + 7) for inputs in (5, 5, 14, 14))

    def run() -> None:
        model(given)[0].sum().backward()

    assert counter(run) == {}
    assert matrix_flop(ours(run, tmp_path)) == {
        "aten::mkldnn_rnn_layer": forward,
        "aten::mkldnn_rnn_layer_backward": 2 * forward,
    }
