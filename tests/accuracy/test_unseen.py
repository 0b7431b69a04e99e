"""Models that run their modules several times, captured on the spot: a bare list of names and types is enough.

Each module is listed once, in the order of first calls, as a user would write it down. The truth is what frames,
sequence numbers and flows say.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.annotate import annotate
from hotline_analysis.annotate.model import parse_model
from tests.accuracy.hide import tables_of

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


def sentences() -> Any:
    return torch.randint(30, (4, 6))


def images() -> Any:
    return torch.randn(4, 3, 12, 12)


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], tuple[Any, ...]]]] = {
    "attention decoder": (Translator, lambda: (sentences(), sentences())),
    "siamese net": (Siamese, lambda: (images(), images())),
    "shared block": (Shared, lambda: (sentences(),)),
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


def bare(connection: duckdb.DuckDBPyConnection) -> list[Any]:
    """The modules of an annotated trace as nested names and types, and nothing else."""
    found: dict[int | None, dict[str, Any]] = {None: {"ops": []}}
    for module_id, parent_id, name, kind in connection.sql(
        "select module_id, parent_id, name, type from model_op order by module_id"
    ).fetchall():
        found[module_id] = {"name": name, "type": kind, "ops": []}
        found[parent_id]["ops"].append(found[module_id])
    result: list[Any] = found[None]["ops"]
    return result


def shares(trace: Trace) -> tuple[dict[str, tuple[float, float]], float]:
    """By pass: the shares of events with the module that is right, and with one that is wrong; and of sure calls.

    A module around the right one is not wrong: what stands between two modules is only surely in one that holds both.
    """
    truth, hidden = tables_of(trace), tables_of(trace, hide=True)
    annotate(truth)
    annotate(hidden, model=parse_model(bare(truth), "model.json"))
    hidden.register("truth", truth.sql("select * from label").to_arrow_table())
    rows = hidden.sql(
        """
        with recursive ancestor as (
            select module_id, module_id as around_id from model_op
            union all
            select ancestor.module_id, model_op.parent_id
            from ancestor inner join model_op on ancestor.around_id = model_op.module_id
            where model_op.parent_id is not null
        )
        select
            truth.pass,
            100.0 * avg((label.module_id is not distinct from truth.module_id)::integer),
            100.0 * avg((
                label.module_id is not null and (truth.module_id, label.module_id) not in (from ancestor)
            )::integer)
        from truth inner join label using (event_id)
        where truth.module_id is not null
        group by truth.pass
        """
    ).fetchall()
    sure = hidden.sql(
        "select 100.0 * avg((confidence_pct = 100)::integer) from module_span where pass = 'forward'"
        " and module_id not in (select parent_id from model_op where parent_id is not null)"
    ).fetchall()[0][0]
    return {name: (right, wrong) for name, right, wrong in rows}, float(sure)


@pytest.mark.parametrize("name", MODELS)
def test_modules_that_run_several_times(name: str, tmp_path: Path) -> None:
    make, inputs = MODELS[name]
    torch.manual_seed(0)
    capture(make(), inputs, tmp_path / "trace.json")
    with ha.load(tmp_path / "trace.json") as trace:
        right, sure = shares(trace)
    for name_of_pass in ("forward", "backward"):
        of_right, of_wrong = right[name_of_pass]
        assert of_wrong == 0.0, name_of_pass
        assert of_right > 90.0, name_of_pass
    assert sure > 80.0
