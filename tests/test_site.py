"""The site of the documentation: what its build adds to the pages. That it builds without a warning is `make site`."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import hotline_analysis as ha
from docs import generate_queries, site
from hotline_analysis import catalog

pytest.importorskip("mkdocs")
ROOT = Path(__file__).parents[1]
MOST_LINES = 400


def test_no_page_is_longer_than_can_be_read() -> None:
    lines = {page: len(page.read_text(encoding="utf-8").splitlines()) for page in (ROOT / "docs").rglob("*.md")}
    assert lines
    assert {page.name: count for page, count in lines.items() if count > MOST_LINES} == {}


def test_every_public_name_is_in_the_reference() -> None:
    listed = "\n".join(site.reference_pages().values())
    names = set(re.findall(r"^::: hotline_analysis\..*?(\w+)$", listed, re.MULTILINE))
    assert {name for name in dir(ha) if not name.startswith("_")} - names == {"charts"}
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
    held = {"capture.md": True, "tables/read.md": True, "examples/gate.yml": False}
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
    assert led("[the\nfile](../queries/a.sql)", "gate.md") == "the\nfile"
    assert (
        led("[file](../queries/a.sql)", "gate.md", "https://host/x") == "[file](https://host/x/blob/main/queries/a.sql)"
    )
    assert led("[gate](examples/gate.yml)", "gate.md") == "gate"
    assert led("[web](https://host/) [here](#there)", "gate.md") == "[web](https://host/) [here](#there)"
    assert led("```text\n[x](y.md)\n```", "gate.md") == "```text\n[x](y.md)\n```"
    # much text without a link takes no time
    assert led("[`a` " * 2_000, "gate.md") == "[`a` " * 2_000
