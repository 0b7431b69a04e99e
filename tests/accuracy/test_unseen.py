"""Models whose ops do not follow their modules one by one, captured on the spot: a bare list is enough.

Each module is listed once with name and type, in the order of first calls, as a user would write it down. The truth is
what frames, sequence numbers and flows say.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.annotation.model_file import parse_model
from hotline_analysis.annotation.pipeline import annotate
from tests.accuracy.hide import compare, tables_of

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.score = (nn.Linear(width, size) for size in (width, width, 1))

    def forward(self, state: Any, memory: Any) -> Any:
        weight = self.score(torch.tanh(self.query(state)[:, None] + self.key(memory))).softmax(1)
        return (weight * memory).sum(1)


class Translator(nn.Module):  # type: ignore[misc]
    """The embedding runs before the loop over time and in it."""

    def __init__(self, words: int = 30, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.encode = nn.GRU(width, width, batch_first=True)
        self.attend = Attention(width)
        self.drop = nn.Dropout(0.1)
        self.cell = nn.GRUCell(2 * width, width)
        self.out = nn.Linear(width, words)

    def forward(self, source: Any, target: Any) -> Any:
        memory, state = self.encode(self.embed(source))
        state, outputs = state[0], []
        for at in range(target.shape[1]):
            context = self.attend(state, memory)
            state = self.cell(torch.cat([self.drop(self.embed(target[:, at])), context], -1), state)
            outputs.append(self.out(state))
        return torch.stack(outputs, 1)


class Siamese(nn.Module):  # type: ignore[misc]
    """Two images go through one backbone."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.project = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
        self.head = nn.Linear(8, 2)

    def forward(self, left: Any, right: Any) -> Any:
        both = [self.project(self.backbone(image).mean((2, 3))) for image in (left, right)]
        return self.head(torch.cat(both, 1))


class Block(nn.Module):  # type: ignore[misc]
    """One dropout is called twice."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        x = x + self.drop(self.mix(self.norm(x)))
        return x + self.drop(self.mlp(x))


class Shared(nn.Module):  # type: ignore[misc]
    """One block runs five times, and the output has the weights of the embedding."""

    def __init__(self, words: int = 30, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.block = Block(width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, words, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, words: Any) -> Any:
        x = self.embed(words)
        for _ in range(5):
            x = self.block(x)
        return self.out(self.norm(x))


class Convolutions(nn.Module):  # type: ignore[misc]
    """Each convolution computes its weight, so its class has children, and a number that others have, too."""

    def __init__(self) -> None:
        super().__init__()
        normed = nn.utils.parametrizations.weight_norm
        self.rise = nn.Sequential(normed(nn.Conv1d(3, 8, 3)), nn.ReLU(), normed(nn.Conv1d(8, 8, 3)), nn.ReLU())
        self.fall = nn.Sequential(normed(nn.Conv1d(8, 4, 3)), nn.ReLU())
        self.out = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.out(self.fall(self.rise(x)).mean(2))


class RMSNorm(nn.Module):  # type: ignore[misc]
    """Written out, as many models have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Decoder(nn.Module):  # type: ignore[misc]
    """Few layers with an op of their name among the norms."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, width)
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(3))
        self.mix, self.up = nn.Linear(width, 3 * width), nn.Linear(width, 2 * width)
        self.down, self.head = nn.Linear(2 * width, width), nn.Linear(width, 30)

    def forward(self, words: Any) -> Any:
        x = self.embed(words)
        x = x + nn.functional.scaled_dot_product_attention(*self.mix(self.norms[0](x)).chunk(3, -1))
        x = x + self.down(self.up(self.norms[1](x)).relu().square())
        return self.head(self.norms[2](x))


class GraphLayer(nn.Module):  # type: ignore[misc]
    """A division before a dropout, whose mask is divided, too, and a sum before a batch norm, which counts batches."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(width, width), nn.Linear(width, width)
        self.drop, self.norm = nn.Dropout(0.1), nn.BatchNorm1d(width)

    def forward(self, x: Any, source: Any, target: Any) -> Any:
        score = (x[source] * x[target]).sum(-1, keepdim=True).exp()
        weight = score / torch.zeros(len(x), 1).index_add(0, target, score)[target]
        heard = torch.zeros_like(x).index_add(0, target, self.drop(weight) * x[source])
        return self.norm(self.own(x) + self.others(heard))


class Graph(nn.Module):  # type: ignore[misc]
    """Two layers, and a readout: what runs in a sequence is not run again behind it."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GraphLayer(width) for _ in range(2))
        self.read = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.out = nn.Linear(width, 2)

    def forward(self, x: Any, source: Any, target: Any) -> Any:
        for layer in self.layers:
            x = layer(x, source, target)
        return self.out((self.read(x) * x).sum(0).relu())


class LayerNorm(nn.Module):  # type: ignore[misc]
    """Written out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Any) -> Any:
        return self.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.bias


class GELU(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.045 * torch.pow(x, 3))))


class DropPath(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x * x.new_empty((len(x), 1, 1)).bernoulli_(0.9).div_(0.9) if self.training else x


class LayerScale(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return x * self.gamma


class WrittenBlock(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), GELU(), nn.Linear(2 * width, width))
        self.scale, self.drop = LayerScale(width), DropPath()

    def forward(self, x: Any) -> Any:
        return x + self.drop(self.scale(self.mlp(self.norm(x)) * 0.5))


class Written(nn.Module):  # type: ignore[misc]
    """Modules without an op of their own; and pooling, which makes a node of its own for one of its outputs only."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.LocalResponseNorm(3), nn.Conv2d(8, 8, 3, stride=2))
        self.pool, self.fine = nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d(2)
        self.blocks = nn.Sequential(WrittenBlock(8), WrittenBlock(8))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = torch.cat([self.pool(x).flatten(2), self.fine(x).flatten(2)], -1).transpose(1, 2)
        return self.head(self.blocks(x))


class SelfAttention(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        query, key, value = self.qkv(x).chunk(3, -1)
        weight = nn.functional.dropout((query @ key.transpose(1, 2)).softmax(-1), 0.1, self.training)
        return self.out(weight @ value)


class Stack(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, embed: Any) -> None:
        super().__init__()
        self.embed, self.drop = embed, nn.Dropout(0.1)
        self.layers = nn.ModuleList(SelfAttention(width) for _ in range(2))

    def forward(self, words: Any) -> Any:
        x = self.drop(self.embed(words))
        for layer in self.layers:
            x = x + layer(x)
        return x


class SharedEmbedding(nn.Module):  # type: ignore[misc]
    """An embedding of two stacks, whose weights are the output's, too; and a dropout that is a function."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        embed = nn.Embedding(30, width)
        self.encoder, self.decoder = Stack(width, embed), Stack(width, embed)
        self.head = nn.Linear(width, 30, bias=False)
        self.head.weight = embed.weight

    def forward(self, source: Any, target: Any) -> Any:
        return self.head(self.decoder(target) + self.encoder(source).mean(1, keepdim=True))


class Heads(nn.Module):  # type: ignore[misc]
    """Two heads of the same layers run on three levels each: one after the other, or in turn?"""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.classes, self.boxes = (nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1)) for _ in range(2))

    def forward(self, image: Any) -> Any:
        x = self.stem(image)
        levels = [x, x[..., ::2, ::2], x[..., ::4, ::4]]
        return sum(head(level).sum() for head in (self.classes, self.boxes) for level in levels)


class Cell(nn.Module):  # type: ignore[misc]
    """A recurrent cell written by hand."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.new, self.old = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Any, state: Any) -> Any:
        return torch.tanh(self.new(x) + self.old(state))


class Loops(nn.Module):  # type: ignore[misc]
    """A loop for each of two layers, and one that begins with a cell, in which what follows the cell looks like what
    runs before the loop."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.cells = nn.ModuleList(Cell(width) for _ in range(2))
        self.before = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, width), nn.ELU())
        self.cell = nn.LSTMCell(width, width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, width))

    def forward(self, x: Any) -> Any:
        for cell in self.cells:
            steps = [torch.zeros_like(x[0])]
            for now in x:
                steps.append(cell(now, steps[-1]) * 0.9)
            x = torch.stack(steps[1:])
        now = self.before(x.mean(0))
        state, outputs = (now, now), []
        for _ in range(4):
            state = self.cell(now, state)
            now = self.head(nn.functional.elu(state[0]))
            outputs.append(now)
        return torch.stack(outputs)


def transformer() -> Any:
    """Torch's own: what its attention computes is in no module, and the decoder's has one projection more."""
    return nn.Transformer(8, 2, 2, 2, 16, batch_first=True)


def sentences() -> Any:
    return torch.randint(30, (4, 6))


def images() -> Any:
    return torch.randn(4, 3, 12, 12)


def edges() -> tuple[Any, Any, Any]:
    return torch.randn(20, 8), torch.randint(20, (60,)), torch.randint(20, (60,))


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], tuple[Any, ...]]]] = {
    "attention decoder": (Translator, lambda: (sentences(), sentences())),
    "siamese net": (Siamese, lambda: (images(), images())),
    "shared block": (Shared, lambda: (sentences(),)),
    "weight norm": (Convolutions, lambda: (torch.randn(4, 3, 12),)),
    "rms norm": (Decoder, lambda: (sentences(),)),
    "transformer": (transformer, lambda: (torch.randn(4, 6, 8), torch.randn(4, 5, 8))),
    "written out": (Written, lambda: (images(),)),
    "shared embedding": (SharedEmbedding, lambda: (sentences(), sentences())),
}


def capture(model: Any, inputs: Callable[[], tuple[Any, ...]], path: Path) -> None:
    """Two steps of training, each with two forward passes of evaluation before it."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        with torch.no_grad():
            model(*inputs())
            model(*inputs())
        optimizer.zero_grad()
        model(*inputs()).sum().backward()
        optimizer.step()

    step()
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, with_stack=True, with_modules=True) as profiler:
        for _ in range(2):
            step()
            profiler.step()
    profiler.export_chrome_trace(str(path))


def bare(
    connection: duckdb.DuckDBPyConnection, without: Collection[str], lacking: Collection[int] = ()
) -> tuple[list[Any], list[int]]:
    """The modules of an annotated trace as nested names and types, but for some, and their numbers in it."""
    rows = connection.sql("select module_id, parent_id, name, type from model_op order by module_id").fetchall()
    found: dict[int | None, dict[str, Any]] = {None: {"ops": []}}
    for module_id, parent_id, name, kind in rows:
        found[module_id] = {"name": name, "type": kind, "ops": []}
        if kind not in without and module_id not in lacking:
            found[parent_id]["ops"].append(found[module_id])
    result: list[Any] = found[None]["ops"]
    return result, [number for number, _, _, kind in rows if kind not in without and number not in lacking]


def shares(trace: Trace, *without: Collection[str]) -> list[tuple[dict[str, tuple[float, float]], float]]:
    """By list, without some types: what is right and wrong in each pass, and the share of sure calls."""
    truth = tables_of(trace)
    annotate(truth)
    return [shares_of(truth, tables_of(trace, hide=True), some) for some in without]


def shares_of(
    truth: duckdb.DuckDBPyConnection, hidden: duckdb.DuckDBPyConnection, without: Collection[str]
) -> tuple[dict[str, tuple[float, float]], float]:
    """By pass: the shares of events with the module that is right, and with one that is wrong; and of sure calls.

    A module around the right one is not wrong: what stands between two modules is only surely in one that holds both.
    """
    model, numbers = bare(truth, without)
    annotate(hidden, model=parse_model(model, "model.json"))
    truth.register("found", hidden.sql("select event_id, module_id from label").to_arrow_table())
    truth.register("listed", pa.table({"place": range(len(numbers)), "module_id": numbers}))
    rows = truth.sql(
        """
        with recursive ancestor as (
            select module_id, module_id as around_id from model_op
            union all
            select ancestor.module_id, model_op.parent_id
            from ancestor inner join model_op on ancestor.around_id = model_op.module_id
            where model_op.parent_id is not null
        )
        select
            label.pass,
            100.0 * avg((listed.module_id is not distinct from label.module_id)::integer),
            100.0 * avg((
                listed.module_id is not null and (label.module_id, listed.module_id) not in (from ancestor)
            )::integer)
        from label inner join found using (event_id) left join listed on found.module_id = listed.place
        where label.module_id is not null
        group by label.pass
        """
    ).fetchall()
    sure = hidden.sql(
        "select 100.0 * avg((confidence_pct = 100)::integer) from module_span where pass = 'forward'"
        " and module_id not in (select parent_id from model_op where parent_id is not null)"
    ).fetchall()[0][0]
    return {name: (right, wrong) for name, right, wrong in rows}, float(sure)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.sampled
def test_a_bare_list_is_enough(name: str, tmp_path: Path) -> None:
    make, inputs = MODELS[name]
    torch.manual_seed(0)
    capture(make(), inputs, tmp_path / "trace.json")
    with ha.load(tmp_path / "trace.json") as trace:
        (right, sure), (without_norms, _) = shares(trace, (), {"LayerNorm", "BatchNorm2d", "Dropout"})
    for name_of_pass in ("forward", "backward"):
        of_right, of_wrong = right[name_of_pass]
        assert of_wrong == 0.0, name_of_pass
        assert of_right > 90.0, name_of_pass
        assert without_norms[name_of_pass][1] == 0.0, name_of_pass
    assert sure > 80.0


class Tables(nn.Module):  # type: ignore[misc]
    """Embedding tables, and layers that nothing but their order tells apart."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(30, width) for _ in range(8))
        self.dense = nn.ModuleList(nn.Linear(width, width) for _ in range(6))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, words: Any) -> Any:
        x = sum(table(words) for table in self.tables)
        for number, layer in enumerate(self.dense):
            x = layer(x).relu()
            if number % 2:
                x = x + self.norms[number // 2](x)
        return x


INCOMPLETE = {"tables": (Tables, lambda: (sentences(),)), "transformer": MODELS["transformer"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", INCOMPLETE)
@pytest.mark.sampled
def test_what_is_sure_in_a_list_that_lacks_modules_is_right(name: str, tmp_path: Path) -> None:
    """Without one or three modules, each op is in a module around the right one, or its place is doubtful."""
    make, inputs = INCOMPLETE[name]
    torch.manual_seed(0)
    capture(make(), inputs, tmp_path / "trace.json")
    with ha.load(tmp_path / "trace.json") as trace:
        truth = tables_of(trace)
        annotate(truth)
        leaves = truth.sql(
            "select module_id from model_op where module_id not in"
            " (select parent_id from model_op where parent_id is not null) order by module_id"
        ).fetchall()
        chosen = random.Random(0)
        for count in (1, 3, 3, 3):
            lacking = {number for (number,) in chosen.sample(leaves, count)}
            assert surely_wrong(trace, truth, lacking) == [], lacking


def surely_wrong(trace: Trace, truth: duckdb.DuckDBPyConnection, lacking: Collection[int]) -> list[Any]:
    """The forward ops that a list without some modules puts, with no doubt, into one that is not around them."""
    model, numbers = bare(truth, (), lacking)
    hidden = tables_of(trace, hide=True)
    annotate(hidden, model=parse_model(model, "model.json"))
    found = hidden.sql(
        "select label.event_id, module_span.module_id from label"
        " inner join nesting on label.event_id = nesting.event_id"
        " asof inner join module_span on label.module_id = module_span.module_id"
        "  and nesting.track_id = module_span.track_id and nesting.start_ns >= module_span.start_ns"
        " where label.pass = 'forward' and module_span.pass = 'forward' and module_span.confidence_pct = 100"
    )
    truth.register("found", found.to_arrow_table())
    truth.register("listed", pa.table({"place": range(len(numbers)), "module_id": numbers}))
    return truth.sql(
        """
        with recursive ancestor as (
            select module_id, module_id as around_id from model_op
            union all
            select ancestor.module_id, model_op.parent_id
            from ancestor inner join model_op on ancestor.around_id = model_op.module_id
            where model_op.parent_id is not null
        )
        select distinct label.module_id, listed.module_id
        from label
        inner join found on label.event_id = found.event_id
        inner join listed on found.module_id = listed.place
        where label.pass = 'forward' and (label.module_id, listed.module_id) not in (from ancestor)
        """
    ).fetchall()


@pytest.mark.slow
def test_loops_are_told_apart(tmp_path: Path) -> None:
    torch.manual_seed(0)
    capture(Loops(), lambda: (torch.randn(5, 4, 8),), tmp_path / "trace.json")
    with ha.load(tmp_path / "trace.json") as trace:
        ((right, sure),) = shares(trace, ())
    assert [wrong for _, wrong in right.values()] == [0.0, 0.0]
    assert min(of_right for of_right, _ in right.values()) > 80.0
    assert sure > 80.0


@pytest.mark.long
def test_what_has_no_gradient_has_no_node(tmp_path: Path) -> None:
    torch.manual_seed(0)
    capture(Graph(), edges, tmp_path / "trace.json")
    with ha.load(tmp_path / "trace.json") as trace:
        assert compare(trace)["backward"].cpu_pct == 100.0
        ((right, _),) = shares(trace, ())
    assert [wrong for _, wrong in right.values()] == [0.0, 0.0]


@pytest.mark.slow
def test_what_may_be_either_of_two_modules_is_doubtful(tmp_path: Path) -> None:
    torch.manual_seed(0)
    capture(Heads(), lambda: (images(),), tmp_path / "trace.json")
    with ha.load(tmp_path / "trace.json") as trace:
        truth, hidden = tables_of(trace), tables_of(trace, hide=True)
    annotate(truth)
    annotate(hidden, model=parse_model(bare(truth, ())[0], "model.json"))
    calls = (
        "select track_id, start_ns, module_id, coalesce(confidence_pct, 100) as confidence_pct from module_span"
        " where pass = 'forward' and module_id not in (select parent_id from model_op where parent_id is not null)"
    )
    hidden.register("truth", truth.sql(calls).to_arrow_table())
    count, least, surely = hidden.sql(
        f"""
        select count(*), min(found.confidence_pct), max(found.confidence_pct) filter (not is_right)
        from (
            select found.*, found.module_id = truth.module_id as is_right
            from ({calls}) as found
            asof inner join truth on found.track_id = truth.track_id and found.start_ns >= truth.start_ns
        ) as found
        """
    ).fetchall()[0]
    assert count > 0
    assert least < 100
    assert surely is None or surely < 100


@pytest.mark.parametrize("is_learned", [True, False])
def test_evaluation_is_a_pass_though_it_runs_no_dropout_and_counts_no_batches(is_learned: bool, tmp_path: Path) -> None:
    """Three steps of training, each after an evaluation of two batches: every module is called nine times."""
    layers = (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(400, 10))
    model = nn.Sequential(*layers)
    if is_learned:
        ha.model_ops(model, images()).save(tmp_path / "model.json")
    else:
        listed = [{"name": name, "type": type(layer).__name__} for name, layer in model.named_children()]
        (tmp_path / "model.json").write_text(json.dumps([{"name": "net", "type": "Sequential", "ops": listed}]))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(3):
            model.eval()
            with torch.no_grad():
                model(images())
                model(images())
            model.train()
            optimizer.zero_grad()
            model(images()).sum().backward()
            optimizer.step()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = ha.load(tmp_path / "trace.json", model=tmp_path / "model.json")
    calls = trace.sql(
        "select model_op.type, count(*) as calls from module_span inner join model_op"
        " on module_span.module_id = model_op.module_id where module_span.pass = 'forward' and model_op.depth = 1"
        " group by model_op.type"
    )
    assert dict(calls.rows()) == dict.fromkeys((type(layer).__name__ for layer in layers), 9)
