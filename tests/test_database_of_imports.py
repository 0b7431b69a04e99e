"""The imports of a process use one database in turns: none sees anything of another, and none that failed is kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import hotline_analysis as ha
from hotline_analysis import catalog
from hotline_analysis.annotation import pipeline
from hotline_analysis.importer import annotating
from hotline_analysis.importer.annotating import _KEPT
from tests.trace_builder import TraceBuilder

FILES = 4


def file(folder: Path, number: int) -> Path:
    trace = TraceBuilder().step(0, 0, 100)
    for place in range(number + 1):
        trace.op(f"aten::op{number}", 10 * place, 10 * place + 5)
    return trace.write(folder / f"{number}.json")


def names(trace: ha.Trace) -> list[tuple[str, int]]:
    return trace.sql("select name, count(*) from event where category = 'cpu_op' group by name order by name").rows()


def test_one_after_another(tmp_path: Path) -> None:
    databases = set()
    for number in range(FILES):
        ha.import_traces(file(tmp_path, number), tmp_path / f"{number}.hotline")
        (database,) = _KEPT
        databases.add(id(database))
        tables = database.execute("select table_name from duckdb_tables()").fetchall()
        assert {name for (name,) in tables} == catalog.rules().keys()
        assert database.execute("select count(*) from duckdb_views() where not internal").fetchone() == (0,)
        with ha.load(tmp_path / f"{number}.hotline") as trace:
            assert names(trace) == [(f"aten::op{number}", number + 1)]
    assert len(databases) == 1


def test_at_once(tmp_path: Path) -> None:
    files = [file(tmp_path, number) for number in range(FILES)]
    with ThreadPoolExecutor(FILES) as pool:
        list(pool.map(lambda each: ha.import_traces(each, each.with_suffix(".hotline")), files))
    for number, each in enumerate(files):
        with ha.load(each.with_suffix(".hotline")) as trace:
            assert names(trace) == [(f"aten::op{number}", number + 1)]
    assert len(_KEPT) == 1


def test_settings_are_those_of_a_new_database(tmp_path: Path) -> None:
    def settings(database: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
        return database.execute("select name, value from duckdb_settings() order by name").fetchall()

    ha.import_traces(file(tmp_path, 0), tmp_path / "run.hotline")
    (kept,) = _KEPT
    with annotating._new_database() as new:
        assert settings(kept) == settings(new)


@pytest.mark.parametrize("is_defect", [False, True])
def test_one_that_failed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_defect: bool) -> None:
    ha.import_traces(file(tmp_path, 0), tmp_path / "0.hotline")
    (before,) = _KEPT
    failed: list[bool] = []

    def failing(*args: object, **options: object) -> None:
        if not failed:
            failed.append(True)
            raise duckdb.InternalException("a defect") if is_defect else duckdb.ConversionException("odd")
        pipeline.annotate(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(annotating, "annotate", failing)
    if is_defect:  # tried once more, in another one
        ha.import_traces(file(tmp_path, 1), tmp_path / "1.hotline")
    else:
        with pytest.raises(ha.HotlineError, match="cannot be annotated: odd"):
            ha.import_traces(file(tmp_path, 1), tmp_path / "1.hotline")
    assert _KEPT == []
    with pytest.raises(duckdb.ConnectionException):
        before.execute("select 1")
    ha.import_traces(file(tmp_path, 2), tmp_path / "2.hotline")
    with ha.load(tmp_path / "2.hotline") as trace:
        assert names(trace) == [("aten::op2", 3)]
