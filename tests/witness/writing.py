"""Every frame of a state, written into a folder."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

import hotline_analysis as ha
from hotline_analysis import Trace, catalog
from hotline_analysis.errors import HotlineError
from hotline_analysis.schema import TABLES

ROOT = Path(__file__).parents[2]
MOST_STEPS = 3  # of a rank: the first, the middle and the last
TABLE_KINDS = ("derive", "annotate", "views")  # queries that make tables, which are read as such
COMPUTED = (
    "advice",
    "critical_path",
    "critical_path_breakdown",
    "frequent_kernel_patterns",
    "gpu_or_cpu_bound",
    "optimizer_bottleneck",
    "slowest_places",
    "step_limits",
)


def sources(folder: Path) -> Iterator[tuple[str, Path, Path | None]]:
    """Name, file or folder, and model of each trace: those of HOTLINE_TRACES, and ours."""
    data = ROOT / "tests" / "data"
    yield "demo", ha.demo_trace(), None
    yield "ours-gloo", data / "gloo", None
    for file in sorted(data.rglob("*.json.gz")):
        if file.parent.name != "gloo":
            yield f"ours-{file.parent.name}-{file.name.partition('.')[0]}".replace("-data-", "-"), file, None
    for file in sorted(folder.rglob("*.json.gz")):
        name = "-".join(file.relative_to(folder).parts).partition(".")[0]
        model = file.with_name("model.json")
        yield name, file, model if model.exists() else None
    if (folder / "multi_rank").is_dir():
        yield "multi_rank", folder / "multi_rank", None


def questions(trace: Trace) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Query, the words that tell this question from others, and its arguments."""
    steps = trace.sql("select rank, step, start_ns, end_ns from step order by rank, start_ns")
    first = {
        "rank": trace.ranks[0],
        "device": -1,
        "start_ns": 0,
        "end_ns": 1 << 62,
        "step": 0,
        "event": 0,
        "samples": 1,
    }
    if steps.height:
        first |= steps.select("step", "start_ns", "end_ns").row(0, named=True)
    kernels = trace.sql("select min(event_id), min(coalesce(device, -1)) from gpu_op").row(0)
    if kernels[0] is not None:
        first |= {"event": kernels[0], "device": kernels[1]}
    for query in catalog.queries():
        if str(query.kind) in TABLE_KINDS:
            continue
        params = {param.name: param for param in query.params}
        needed = {name: first[name] for name, param in params.items() if param.required}
        yield query.name, "", needed
        for word in params["by"].words if "by" in params else ():
            yield query.name, f"by={word}", {**needed, "by": word}
        if str(query.kind) in ("rule", "advice"):
            continue
        for rank in trace.ranks[:8] if "rank" in params and len(trace.ranks) > 1 else ():
            yield query.name, f"rank={rank}", {**needed, "rank": rank}
        if "step" in params:
            for rank in trace.ranks[:2]:
                found = steps.filter(pl.col("rank") == rank)["step"].to_list()
                for step in dict.fromkeys(found[number] for number in middle(len(found))):
                    scope = {"rank": rank, "step": step} if "rank" in params else {"step": step}
                    yield query.name, " ".join(f"{name}={value}" for name, value in scope.items()), {**needed, **scope}


def middle(count: int) -> Sequence[int]:
    """Positions of the first, the middle and the last of so many."""
    return (0, count // 2, count - 1)[:MOST_STEPS] if count else ()


def write_trace(name: str, source: Path, model: Path | None, output: Path, only: str) -> str:
    """Write the frames of one trace; returns a line for people."""
    folder = output / name
    if not only:  # frames of another state would be taken for those of this one
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ha.load(source, model=model) as trace:
            for table in TABLES.values():
                if only in table.name:
                    frame = trace.table(table.name)
                    frame.write_parquet(folder / f"table {table.name}.parquet")
                    count += 1
            for query, words, arguments in questions(trace):
                if only in query:
                    _save(folder / f"{query} {words}".strip(), partial(trace.query, query, **arguments))
                    count += 1
            for answer in COMPUTED:
                if only in answer:
                    _save(folder / answer, partial(_asked, trace, answer))
                    count += 1
    return f"{name}: {count} frames, {time.perf_counter() - begun:.1f} s"


def _asked(trace: Trace, answer: str) -> pl.DataFrame:
    found = getattr(ha, answer)(trace)
    if isinstance(found, ha.Finding):
        return pl.DataFrame(
            {"answer": [found.answer], "statement": [found.statement], "numbers": [str(dict(found.numbers))]}
        )
    if isinstance(found, pl.DataFrame):
        return found
    return pl.DataFrame({"row": [str(row) for row in found]})


def _save(path: Path, ask: Callable[[], pl.DataFrame]) -> None:
    try:
        ask().write_parquet(path.with_name(f"{path.name}.parquet"))
    except HotlineError as error:
        path.with_name(f"{path.name}.error").write_text(str(error), encoding="utf-8")


def write(output: Path, only_traces: str, only: str, jobs: int) -> None:
    """Write the frames of all traces into a folder."""
    place = Path(os.environ.get("HOTLINE_TRACES", ROOT.parent / "shared" / "traces"))
    chosen = [each for each in sources(place) if only_traces in each[0]]
    chosen.sort(key=lambda each: -(each[1].stat().st_size if each[1].is_file() else 1 << 20))
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        for done in [pool.submit(write_trace, *each, output, only) for each in chosen]:
            print(done.result(), flush=True)
