"""Jobs with a planted slow rank, a missing one, and a slow link: the report begins with them, and is short."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.benchmarks import fleet

pytestmark = pytest.mark.slow  # what its tests share takes 10 seconds or more

RANKS, SLOW, MISSING = 18, 11, 4  # above 16, tables are joined


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("fleet")
    files = fleet.write_fleet(fleet.tiny(layers=8), folder, RANKS, slow=SLOW, missing=[MISSING])
    assert len(files) == RANKS - 1
    return ha.load(folder)


@pytest.mark.long
def test_the_slow_rank_is_last_to_all_collectives(trace: Trace) -> None:
    """But for the first one: before that, its recording began later by as much."""
    worst = ha.stragglers(trace).row(0, named=True)
    assert (worst["rank"], worst["last_count"], worst["collective_count"]) == (SLOW, 7, 8)


def test_clocks_are_found(trace: Trace) -> None:
    """All ranks end a collective at one time, to the nanosecond that is rounded off at start and end."""
    for rank, offset in ha.stragglers(trace).select("rank", "clock_offset_ns").iter_rows():
        clock = random.Random(f"0 {rank}").gauss(0, fleet.CLOCK_US) if rank else 0.0
        assert offset == pytest.approx(1000 * clock, abs=2)


def test_the_report_of_a_large_job_is_short_and_begins_with_what_is_wrong(trace: Trace) -> None:
    report = ha.report(trace)
    lines = report.to_text().splitlines()
    first = "\n".join(lines[:10])
    assert f"1 of {RANKS} ranks is missing: {MISSING}" in first
    assert f"Rank {SLOW} is last to reach 7 of 8 collectives" in first
    assert len(lines) < 120
    page = report.to_html()
    # Tags mark the cause inside the sentence.
    text = re.sub(r"<[^>]+>", "", page)
    assert report.lead.split(". ")[0] in text
    assert "ranks is missing" in page
    assert f"Rank {SLOW} is last" in page
    sections = {section.name: section for section in report.sections}
    assert sections["ranks"].rows["rank"][0] == SLOW
    assert sections["stragglers"].rows["rank"][0] == SLOW
    assert "kernels" not in sections


def test_the_report_of_one_rank_has_all_sections(trace: Trace) -> None:
    sections = {section.name for section in ha.report(trace, rank=3).sections}
    assert sections > {"ranks", "stragglers", "device", "kernels", "steps"}


def test_groups_are_neighbours_and_places(tmp_path: Path) -> None:
    files = fleet.write_fleet(fleet.tiny(layers=4), tmp_path, 4, group=2)
    said = [
        {
            event["args"]["Process Group Ranks"]
            for event in fleet.read(file)["traceEvents"]
            if "Collective name" in event.get("args", {})
        }
        for file in files
    ]
    assert said == [{"[0, 1]", "[0, 2]"}, {"[0, 1]", "[1, 3]"}, {"[2, 3]", "[0, 2]"}, {"[2, 3]", "[1, 3]"}]


def test_a_slow_link_is_named(tmp_path: Path) -> None:
    fleet.write_fleet(fleet.tiny(layers=4), tmp_path, 9, group=3, slow_link=2)
    trace = ha.load(tmp_path)
    groups = ha.process_groups(trace)
    slow = groups.filter("is_slow").row(0, named=True)
    assert (slow["group_name"], slow["group_ranks"]) == ("place 2", "[2,5,8]")
    # 2.5 times as long from the given rank's start to the end; others start up to 30 % of the usual time apart.
    assert 2.2 <= slow["slower"] <= 2.5 / 0.7
    said = ha.report(trace).to_text().splitlines()
    assert "Process group place 2 (ranks 2 to 8 in steps of 3)" in "\n".join(said[:10])
