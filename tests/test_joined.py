"""Runs of many ranks, whose tables are few files: the same answers, few files opened, and nothing believed unseen."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hotline_analysis as ha
from hotline_analysis import RunFormatError, catalog
from hotline_analysis.importer import job, joined
from hotline_analysis.importer.tables import is_empty, save_empty
from hotline_analysis.run.stored import shared_file
from hotline_analysis.schema import TABLES
from tests.rank_files import rank_file

pytestmark = pytest.mark.slow  # what its tests share takes 10 seconds or more

RANKS = (0, 1, 2, 3, 5)  # one is missing
STORED = [table for table in TABLES.values() if table.kind != "view"]


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose ranks have files of their own; rank 2 has many more events."""
    folder = tmp_path_factory.mktemp("apart")
    files = [rank_file(folder, rank, world_size=None, kernels=30 if rank == 2 else 2) for rank in RANKS]
    return ha.import_traces(files, folder / "run.hotline")


def join(apart: Path, target: Path, *, group_rows: int = 64, file_bytes: int = 1 << 26, every: bool = True) -> Path:
    """The same run with joined files, by the traces beside it; of `every` table, or of those with small files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "MOST_OWN_FILES", 1)
        patch.setattr(joined, "_GROUP_ROWS", group_rows)
        patch.setattr(joined, "_FILE_BYTES", file_bytes)
        if every:
            patch.setattr(joined, "_is_worth_it", lambda table, folders: True)
        return ha.import_traces(sorted(apart.parent.glob("rank*.json")), target)


@pytest.fixture(scope="module")
def whole(apart: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each table has one file."""
    return join(apart, tmp_path_factory.mktemp("whole") / "run.hotline")


@pytest.fixture(scope="module")
def several(apart: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each table has one file, or two."""
    return join(apart, tmp_path_factory.mktemp("several") / "run.hotline", file_bytes=2_000)


@pytest.fixture(scope="module")
def mixed(apart: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of some tables, the ranks have files of their own."""
    return join(apart, tmp_path_factory.mktemp("mixed") / "run.hotline", file_bytes=3_000, every=False)


@pytest.mark.long
def test_there_are_few_files(several: Path, apart: Path) -> None:
    assert len(list(apart.rglob("*.parquet"))) == len(STORED) * len(RANKS)
    assert len(STORED) < len(list(several.rglob("*.parquet"))) <= 2 * len(STORED)
    assert {place.name for place in several.iterdir()} == {table.name for table in STORED} | {"manifest.json"}


@pytest.mark.parametrize(("most_files", "firsts"), [(8, [0, 2, 5]), (2, [0, 3])])
def test_a_file_has_a_number_of_ranks_or_a_part_of_many(
    most_files: int, firsts: list[int], apart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "_FILE_RANKS", 2)
    monkeypatch.setattr(joined, "_MOST_FILES", most_files)
    run = join(apart, tmp_path / "run.hotline")
    assert json.loads((run / "manifest.json").read_text())["joined"] == {table.name: firsts for table in STORED}
    for table in STORED:
        assert {place.name for place in (run / table.name).iterdir()} == {f"from-{first}" for first in firsts}
    with ha.load(run) as many, ha.load(apart) as own:
        counted = "select rank, count(*) as count from event group by rank order by rank"
        assert many.sql(counted).equals(own.sql(counted))


@pytest.mark.parametrize("run", ["several", "mixed"])
def test_tables_are_the_same(run: str, apart: Path, request: pytest.FixtureRequest) -> None:
    with ha.load(request.getfixturevalue(run)) as many, ha.load(apart) as own:
        for table in STORED:
            query = f"from {table.name} order by all"
            assert many.sql(query).equals(own.sql(query)), table.name


def test_tables_with_large_files_are_not_joined(mixed: Path) -> None:
    assert 0 < len(json.loads((mixed / "manifest.json").read_text())["joined"]) < len(STORED)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.sampled
def test_answers_are_the_same(several: Path, apart: Path, rank: int | None) -> None:
    asked = 0
    with ha.load(several) as many, ha.load(apart) as own:
        for query in catalog.queries("answers"):
            names = [param.name for param in query.params]
            if any(param.required for param in query.params) or (rank is not None and "rank" not in names):
                continue
            given = {} if rank is None else {"rank": rank}
            assert many.query(query.name, **given).equals(own.query(query.name, **given)), query.name
            asked += 1
        assert ha.report(many).to_text() == ha.report(own).to_text()
    assert asked > 30


def test_a_group_of_rows_has_whole_small_ranks_or_a_part_of_one(apart: Path, whole: Path) -> None:
    file = pq.ParquetFile(whole / shared_file(TABLES["event"], 0))
    ranks = [set(file.read_row_group(number)["rank"].to_pylist()) for number in range(file.num_row_groups)]
    with ha.load(apart) as own:
        events = dict(own.sql("select rank, count(*) from event group by rank").rows())
    assert events[2] > 64 > events[0] + events[1]
    assert ranks == [{0, 1}, {2}, {3, 5}]


def test_ranks_without_rows_are_passed_over_whoever_wrote_their_files(tmp_path: Path) -> None:
    table = TABLES["sync"]
    folders = {rank: tmp_path / f"part-{rank}" for rank in range(4)}
    for rank, folder in folders.items():
        folder.mkdir()
        if rank in (0, 3):
            save_empty(table.name, folder)
        else:  # by another version of Arrow, say
            rows = table.arrow.empty_table() if rank == 1 else pa.Table.from_pylist([{"event_id": 7}], table.arrow)
            pq.write_table(rows, folder / f"{table.name}.parquet", compression="none")
    assert [is_empty(folder / "sync.parquet", "sync") for folder in folders.values()] == [True, False, False, True]
    assert joined.join_ranks([table], folders, tmp_path) == {"sync": [0]}
    rows = pq.read_table(tmp_path / shared_file(table, 0))
    assert (rows["rank"].to_pylist(), rows["event_id"].to_pylist()) == ([2], [7])
    assert [*tmp_path.glob("part-*/*")] == []


def test_a_question_about_one_rank_opens_only_files_that_have_it(several: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(several, tmp_path / "run.hotline"))
    firsts = json.loads((run / "manifest.json").read_text())["joined"]["event"]
    assert firsts == [0, 3]
    for file in run.glob("*/from-0/data.parquet"):
        if (file.parent.parent / "from-3").exists():
            file.write_bytes(b"no Parquet")
    with ha.load(run) as trace:
        assert trace.query("slowest_ops", rank=5).height > 0
        with pytest.raises(RunFormatError, match="from-0"):
            trace.query("slowest_ops", rank=1)
        with pytest.raises(RunFormatError, match="from-0"):
            trace.query("slowest_ops")


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_many_ranks_need_no_more_open_files_than_few(apart: Path, tmp_path: Path) -> None:
    """300 ranks, 64 threads, and 100 files that may be open: less than one for each rank."""
    folders = {}
    for rank in range(300):
        folders[rank] = tmp_path / f"part-{rank}"
        folders[rank].mkdir()
        for table in STORED:
            own = apart / table.name / f"rank={RANKS[rank % len(RANKS)]}" / "data.parquet"
            (folders[rank] / f"{table.name}.parquet").hardlink_to(own)
    run = tmp_path / "run.hotline"
    run.mkdir()
    manifest = json.loads((apart / "manifest.json").read_text())
    manifest["parts"] = [{**manifest["parts"][0], "rank": rank} for rank in range(300)]
    manifest["joined"] = joined.join_ranks(STORED, folders, run)
    (run / "manifest.json").write_text(json.dumps(manifest))
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100));"
        "from hotline_analysis.database import SETTINGS; SETTINGS['threads'] = 64;"
        "import hotline_analysis as ha; trace = ha.load(sys.argv[1]);"
        "print(trace.query('stragglers').height, trace.query('temporal_breakdown').height,"
        " trace.query('cpu_parts', rank=299).height > 0, len(str(ha.report(trace))) > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == ["300", "300", "True", "True"]


# --- runs of strangers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        "x",
        {"event": None},
        {"event": []},
        {"event": [1]},
        {"event": [-1]},
        {"event": [0, 0]},
        {"event": [2, 0]},
        {"event": [0.0]},
        {"event": [False]},
        {"event": ["0"]},
        {"event": [[0]]},
    ],
)
def test_what_the_manifest_says_of_files_is_checked(apart: Path, tmp_path: Path, said: object) -> None:
    run = Path(shutil.copytree(apart, tmp_path / "run.hotline"))
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "joined": said}))
    with pytest.raises(RunFormatError, match="joined"):
        ha.load(run)


def unordered(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows.slice(64), rows.slice(0, 64)])


def doubled(rows: pa.Table) -> pa.Table:
    events = rows["event_id"].to_pylist()
    # Rank 2 has rows in two groups: the first and the last are not in one.
    of_two = [place for place, rank in enumerate(rows["rank"].to_pylist()) if rank == 2]
    events[of_two[-1]] = events[of_two[0]]
    return rows.set_column(rows.schema.get_field_index("event_id"), "event_id", pa.array(events, pa.int64()))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda rows: rows.drop_columns("rank"), "the column rank is missing"),
        (lambda rows: rows.set_column(0, "rank", rows["rank"].cast(pa.string())), "the column rank is missing"),
        (unordered, "the ranks are not in order"),
        (doubled, "two rows have the same event_id"),
    ],
)
@pytest.mark.parametrize("rank", [None, 2])
def test_a_shared_file_is_checked(
    whole: Path, tmp_path: Path, change: Callable[[pa.Table], pa.Table], error: str, rank: int | None
) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run.hotline"))
    file = run / shared_file(TABLES["cpu_event"], 0)
    rows = pq.ParquetFile(file).read()
    pq.write_table(change(rows), file, row_group_size=64)
    with ha.load(run) as trace, pytest.raises(RunFormatError, match=error):
        trace.query("slowest_ops", **({} if rank is None else {"rank": rank}))
