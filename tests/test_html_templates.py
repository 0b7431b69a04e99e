"""Templates show values as texts, whatever a value holds and wherever it stands."""

import re

import polars as pl
import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from hotline_analysis.text.html import Cell, Table, _paragraphs, frame_table, render

# An element, an attribute's end, a character that turns the direction of text, a control character.
NAME = "a<script>x</script>\" onload='f()' \u202e \x1b[31m &amp;"


def shown(table: Table) -> str:
    return render("notebook_trace.html", name="run", files=table)


@pytest.mark.parametrize(
    "table",
    [
        Table([Cell(NAME)], []),
        Table([Cell("a")], [[Cell(NAME)]]),
        Table([Cell("a")], [[Cell(NAME, names_row=True, is_text=True)]]),
        Table([Cell("a")], [[Cell(NAME, share=12.34)]]),
        Table([Cell("a")], [[Cell("run", link=NAME)]]),
        Table([Cell("a")], [], more=NAME),
    ],
    ids=["head", "cell", "name", "share", "link", "rest"],
)
def test_no_value_of_a_table_is_markup(table: Table) -> None:
    text = shown(table)
    assert "<script>" not in text
    assert not re.search(r'"\s+onload', text)
    assert "&lt;script&gt;" in text


def test_what_could_hide_or_turn_text_is_made_visible_and_long_texts_are_cut() -> None:
    text = render("notebook_trace.html", name=NAME + "x" * 5000, files=Table([], []))
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "x" * 600 not in text


def test_a_link_is_not_cut() -> None:
    link = "https://example.org/" + "y" * 1000
    assert f'<a href="{link}">run</a>' in shown(Table([Cell("a")], [[Cell("run", link=link)]]))


def test_cells_have_the_place_and_the_bar_that_they_ask_for() -> None:
    cells = [Cell("n", names_row=True, is_text=True), Cell("7"), Cell("12.3 %", share=12.34)]
    text = re.sub(r"\s+", " ", shown(Table([Cell("name", is_text=True), Cell("count"), Cell("share")], [cells])))
    assert '<th scope="col" class="text">name</th><th scope="col">count</th>' in text
    row = '<tr><th scope="row" class="text">n</th><td>7</td><td><span class="share" style="--share:12.3%">12.3 %</span>'
    assert row in text


def test_descriptions_are_paragraphs_and_lists() -> None:
    said = _paragraphs("One <b> and `two`.\n\n- `a`: first\n- `b`: second")
    assert said == (
        "<p>One &lt;b&gt; and <code>two</code>.</p>\n"
        "<ul><li><code>a</code>: first</li><li><code>b</code>: second</li></ul>"
    )


def test_markup_that_we_made_stays() -> None:
    assert render("timeline.html", data=Markup('{"a":1}')).count('{"a":1}') == 1


def test_a_value_that_a_template_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="files"):
        render("notebook_trace.html", name="run")


def test_a_frame_has_units_and_says_how_many_rows_it_leaves_out() -> None:
    frame = pl.DataFrame({"name": ["a", "b"], "dur_ns": [1500, None], "share_pct": [12.0, 1.0], "bytes": [2048, 1]})
    table = frame_table(frame, 1)
    assert [cell.text for cell in table.heads] == ["name", "dur_ns", "share_pct", "bytes"]
    assert [[cell.text for cell in row] for row in table.rows] == [["a", "1.50 µs", "12.0 %", "2 KiB"]]
    assert table.more == "The first 1 of 2 rows."
    assert frame_table(frame, 2).rows[1][1].text == "–"
