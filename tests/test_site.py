"""The site of the documentation: what its build adds to the pages. That it builds without a warning is `make site`."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import hotline_analysis as ha
from docs import generate_cli, generate_queries, site
from hotline_analysis import catalog
from hotline_analysis.schema import TABLES

pytest.importorskip("mkdocs")
ROOT = Path(__file__).parents[1]
MOST_LINES = 400
LINK = re.compile(r"\]\((?P<target>[^)\s#]*)(?:#(?P<anchor>[^)\s]*))?\)")


def test_no_page_is_longer_than_can_be_read() -> None:
    written = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")}
    assert written
    assert {name: text for name, text in written.items() if len(text.splitlines()) > MOST_LINES} == {}
    # Readers look up a heading of a generated page, and do not read the whole page.
    generated = site.generated_pages()
    assert {name: text for name, text in generated.items() if len(text.splitlines()) > 2 * MOST_LINES} == {}


def test_headings_are_unique_in_the_generated_pages() -> None:
    for text in site.generated_pages().values():
        headings = re.findall(r"^#{2,3} (.+)$", text, flags=re.MULTILINE)
        assert len(headings) == len(set(headings))


def test_every_command_query_and_table_has_a_heading_in_its_folder() -> None:
    headings: dict[str, set[str]] = {"cli": set(), "queries": set(), "tables": set()}
    for name, text in site.generated_pages().items():
        headings[name.partition("/")[0]] |= set(re.findall(r"^#{1,2} (.+)$", text, flags=re.MULTILINE))
    assert {f"hotline {name}" for name in generate_cli.command_names()} <= headings["cli"]
    assert {query.name for query in catalog.queries()} | catalog.macros().keys() <= headings["queries"]
    assert TABLES.keys() <= headings["tables"]


def test_links_between_generated_pages_lead_to_headings() -> None:
    pages = site.generated_pages()
    anchors = {name: set(re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)) for name, text in pages.items()}
    checked = 0
    for name, text in pages.items():
        for match in LINK.finditer(re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), match["target"]))
            if target in pages:
                assert match["anchor"] is None or match["anchor"] in anchors[target], (name, match[0])
                checked += 1
            else:
                assert (ROOT / "docs" / target).exists(), (name, match[0])
    assert checked > 500


def test_every_public_name_is_in_the_reference() -> None:
    listed = "\n".join(site.reference_pages().values())
    names = set(re.findall(r"^::: hotline_analysis\..*?(\w+)$", listed, re.MULTILINE))
    assert {name for name in dir(ha) if not name.startswith("_")} - names == {"answers", "charts", "memory", "predict"}
    for module in (ha.answers, ha.memory, ha.predict):
        assert set(module.__all__) <= names
    assert {name for name in dir(ha.charts) if not name.startswith("_")} - names == {"CHARTS"}


def test_every_query_has_a_page_and_answers_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    # the first rows, as the command prints them
    shown = [*site.example(catalog.get("slowest_ops"), Path(ha.demo_trace()))]
    assert shown[1:4] == ["## Example", "", "```text"]
    assert any(line.startswith("aten::convol") for line in shown)
    # what needs more than a trace has none
    assert [*site.example(catalog.get("event_place"), Path(ha.demo_trace()))] == []
    monkeypatch.setattr(site, "example", lambda query, _: [f"EXAMPLE of {query.name}"])
    pages = site.query_pages(Path())
    assert pages.keys() == {site.page_of(query) for query in generate_queries.documented()}
    assert {site.page_of(query) for query in catalog.queries()} <= pages.keys()
    assert "EXAMPLE" in pages["query/slowest_ops.md"]
    assert "EXAMPLE" not in pages["query/launch.md"]
    assert all(text.startswith("# ") for text in pages.values())


def test_links_lead_to_pages_or_to_the_repository() -> None:
    held = {"capture.md": True, "tables/read.md": True, "query/step.md": True, "examples/gate.yml": False}
    files = SimpleNamespace(
        get_file_from_path=lambda name: (
            SimpleNamespace(inclusion=SimpleNamespace(is_included=lambda: held[name])) if name in held else None
        )
    )

    def led(text: str, page: str, repo_url: str = "") -> str:
        of = SimpleNamespace(file=SimpleNamespace(src_uri=page))
        return site.on_page_markdown(text, page=of, config=SimpleNamespace(repo_url=repo_url), files=files)  # type: ignore[arg-type]

    assert led("[how](docs/capture.md#gpu)", "index.md") == "[how](capture.md#gpu)"
    assert led("[`event`](../tables/read.md#event)", "query/x.md") == "[`event`](../tables/read.md#event)"
    assert led("[`step`](../queries/annotate/steps/step/step.sql)", "gate.md") == "[`step`](query/step.md)"
    assert led("[steps](../../queries/annotate/steps/step/step.sql)", "queries/x.md") == "[steps](../query/step.md)"
    assert led("[`step`](../../queries/annotate/steps/step/step.sql)", "query/step.md") == "`step`"
    assert led("[the\nfile](../queries/a.sql)", "gate.md") == "the\nfile"
    assert (
        led("[file](../queries/a.sql)", "gate.md", "https://host/x") == "[file](https://host/x/blob/main/queries/a.sql)"
    )
    assert led("[gate](examples/gate.yml)", "gate.md") == "gate"
    assert led("[web](https://host/) [here](#there)", "gate.md") == "[web](https://host/) [here](#there)"
    assert led("```text\n[x](y.md)\n```", "gate.md") == "```text\n[x](y.md)\n```"
    # much text without a link takes no time
    assert led("[`a` " * 2_000, "gate.md") == "[`a` " * 2_000
