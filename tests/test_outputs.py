"""Names from a trace in every form that leaves the program: text for a person or a program, and never more."""

import csv
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from markupsafe import Markup
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis import Trace, catalog
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.charts import CHARTS
from hotline_analysis.charts.page import page
from hotline_analysis.cli import app, console
from hotline_analysis.reports.renderers.markdown import escape
from tests.browser import Browser, needs_browser
from tests.trace_builder import TraceBuilder

FORMULAS = ["=cmd|'/c calc'!A1", "+1+cmd|x", "-2+3", "@SUM(1)", "\t=1+1", "\r=1+1", "\n=1+1", "\uff1d1", "\uff0b1"]
MARKUP = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](http://evil.example/a)",
    "![x](http://evil.example/b.png)",
    "http://evil.example/c",
    "www.evil.example",
    "@everyone",
    "$\\href{http://evil.example}{x}$",
    "| a | b |",
    "`code`",
    "# head",
    "[bold]rich[/bold]",
    "</style></title></iframe>",
    "${1}`",
]
CONTROL = [
    "\x1b]0;owned\x07",
    "\x1b[31mred",
    "\x9b31mred",
    "back\x08\x7fspace",
    "right\u202eto left",
    "isolate\u2066d\u2069",
    "letter\u061cmark",
    "line\u2028end",
    "zero\u200bwidth",
    "\ufefforder",
    "tag\U000e0041s",
    "nul\x00",
]
ATTACKS = FORMULAS + MARKUP + CONTROL
# What no output has, and what not even a line that is split from others may have.
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x80-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def hostile() -> TraceBuilder:
    """Two steps in which every kind of thing has every name, and metadata with such keys and values."""
    trace = TraceBuilder(
        rank=0,
        hotline_metadata={ATTACKS[9]: ATTACKS[0], "[x](//evil)": MARKUP[2], "\u202ekey": "<b>", "batch_size": 4},
        deviceProperties=[{"id": 0, "name": "GPU <b> \x1b[31m \u202e | [x](http://evil.example)"}],
    )
    trace.process_name(MARKUP[0]).thread_name(CONTROL[1])
    for number in range(2):
        at = 100_000 * number
        trace.step(number, at, at + 90_000)
        for place, name in enumerate(ATTACKS):
            begin = at + 1000 * place
            trace.frame(name, begin, begin + 950).frame(f"nn.Module: {name}_0", begin + 1, begin + 900)
            trace.annotation(name, begin + 2, begin + 800).op(name, begin + 3, begin + 500)
            trace.launches(name, begin + 100, begin + 400, at=begin + 5, until=begin + 20, stream=7)
        trace.op("Optimizer.step#SGD.step", at + 80_000, at + 81_000)
    return trace


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile().write(tmp_path_factory.mktemp("outputs") / "=1 <b>[x](y)@z.json")


@pytest.fixture(scope="module")
def run(file: Path) -> Path:
    return ha.import_traces(file, file.with_name("run.hotline"))


@pytest.fixture(scope="module")
def trace(run: Path) -> Iterator[Trace]:
    with ha.load(run) as opened:
        yield opened


def said(*arguments: object) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)), prog_name="hotline", env={"COLUMNS": "110"})
    assert done.exit_code == 0, done.output
    assert not RAW.search(done.stderr)
    return done.stdout


def bare(answer: str) -> bool:
    """Whether an answer needs no argument."""
    return all(not param.required for param in catalog.get(answer).params)


ANSWERS = [query.name for query in catalog.queries("answers") if bare(query.name)]
ANSWERS += [name for name, answer in COMPUTED.items() if answer.traces == 1]


class Tags(HTMLParser):
    """The elements of a page and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def check_page(text: str) -> None:
    """No element or attribute is from a name: nothing to load, no handler, no address elsewhere."""
    assert not RAW.search(text)
    for tag, attributes in Tags(text).found:
        assert tag not in ("img", "object", "embed", "base", "form"), tag
        for name, value in attributes.items():
            assert not name.startswith("on"), name
            if name in ("href", "src", "action", "srcset", "xlink:href"):
                assert (value or "").startswith(("#", "data:")), value


# --- CSV -------------------------------------------------------------------------------------------------------------


def test_a_spreadsheet_calculates_nothing_of_ours() -> None:
    frame = pl.DataFrame(
        {
            "name": [*FORMULAS, "a=b", "", None],
            "kind": pl.Series(["-a"] * 12, dtype=pl.Enum(["-a"])),
            "list": [["=1"]] * 12,
            "ns": [-5] * 12,
            "pct": [-0.5] * 12,
            "=1+1": [None] * 12,
        }
    )
    header, *rows = csv.reader(io.StringIO(console.to_csv(frame)))
    assert header == ["name", "kind", "list", "ns", "pct", "'=1+1"]
    assert [row[0] for row in rows] == [
        "'=cmd|'/c calc'!A1",
        "'+1+cmd|x",
        "'-2+3",
        "'@SUM(1)",
        r"\t=1+1",
        r"\r=1+1",
        r"\n=1+1",
        "'\uff1d1",
        "'\uff0b1",
        "a=b",
        "",
        "",
    ]
    assert {tuple(row[1:]) for row in rows} == {("'-a", '["=1"]', "-5", "-0.5", "")}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.sampled
def test_answers_in_every_form(trace: Trace, answer: str) -> None:
    frame = COMPUTED[answer].ask(trace) if answer in COMPUTED else trace.query(answer)
    text = console.to_csv(frame)
    assert not RAW.search(text)
    header, *rows = csv.reader(io.StringIO(text))
    assert len(rows) == frame.height
    for number, (name, kind) in enumerate(frame.schema.items()):
        cells = [row[number] for row in rows]
        if kind.is_numeric():
            assert [float(cell) if cell else None for cell in cells] == frame[name].cast(float).to_list()
        else:
            assert not any(re.match("[=+@\uff1d\uff0b\uff0d\uff20\\-\t\r]", cell) for cell in [header[number], *cells])
    assert len(json.loads(console.to_json(frame))) == frame.height
    assert not RAW.search(console.to_json(frame) + console.to_table(frame) + console.to_table(frame, width=80))


def test_json_is_exact_and_has_no_raw_control_characters(run: Path) -> None:
    text = said("sql", "select distinct name from event where category = 'cpu_op'", run, "--json")
    assert text.isascii()
    assert {row["name"] for row in json.loads(text)["rows"]} >= {name for name in ATTACKS if "\x00" not in name}


# --- reports ---------------------------------------------------------------------------------------------------------


def test_reports(run: Path, trace: Trace) -> None:
    for form in ("text", "markdown", "json", "html"):
        text = said("report", run, "--format", form)
        assert not RAW.search(text), form
        if form == "html":
            check_page(text)
        if form == "json":
            json.loads(text)
    for text in (said("diff", run, run), said("diff", run, run, "--markdown"), said("diff", run, run, "--json")):
        assert not RAW.search(text)
    report = ha.report(trace)
    check_page(report._repr_html_())
    check_page(trace._repr_html_())
    for finding in report.findings:
        check_page(finding._repr_html_())
    for shown in (
        repr(report),
        repr(trace),
        str(report),
        report.to_text(),
        report._repr_markdown_(),
        *map(repr, report.findings),
    ):
        assert not RAW.search(shown)


def test_markdown_has_no_markup_of_names(trace: Trace) -> None:
    text = ha.report(trace).to_markdown()
    for line in text.splitlines():
        if not line.startswith("|") or line.startswith("|--"):
            continue
        assert len(re.findall(r"(?<!\\)\|", line)) in {header.count("|") for header in text.splitlines()}
    # No link, picture, address, HTML, code, formula or name that would be told.
    plain = re.sub(r"\\.", "", text)
    assert not re.search(r"\]\(|!\[|<[a-z/!]|`[^`]*alert|\$|://|www\.|@(?!&#8203;)", plain)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[a](b)", r"\[a\](b)"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("http://a.b", r"http:\//a.b"),
        ("WWW.a.b", r"WWW\.a.b"),
        ("@all", "@&#8203;all"),
        ("$x$", r"\$x\$"),
        ("a::b(c<d>)", "a::b(c&lt;d&gt;)"),
    ],
)
def test_names_in_markdown(name: str, shown: str) -> None:
    assert escape(name) == shown


# --- pictures, pages and traces --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, kind in CHARTS.items() if kind.traces == 1])
@pytest.mark.sampled
def test_charts(trace: Trace, tmp_path: Path, name: str) -> None:
    drawn = ha.charts.draw(name, trace)
    # One function writes the page of every chart, so those of a few show it.
    for ending in ("svg", "json", *(["html"] if name in ("overview", "modules", "memory_timeline") else [])):
        text = ha.charts.save(drawn, tmp_path / f"chart.{ending}").read_text(encoding="utf-8")
        if ending == "json":
            assert not RAW.search(text)
            json.loads(text)
        elif ending == "svg":
            check_page(text)
        else:
            body = text[: text.index("vegaEmbed")] if "vegaEmbed" in text else text
            check_page(re.sub(r"(?s)<script>.*?</script>", "", body))


def test_the_timeline(run: Path, tmp_path: Path) -> None:
    said("timeline", run, "-o", tmp_path / "t.html")
    check_page((tmp_path / "t.html").read_text(encoding="utf-8"))


def test_an_exported_trace_means_the_same_and_shows_no_control_characters(trace: Trace, tmp_path: Path) -> None:
    text = ha.export_perfetto(trace, tmp_path / "t.json").read_text(encoding="utf-8")
    assert not RAW.search(text)
    names = {event.get("name") for event in json.loads(text)["traceEvents"] if event.get("cat") == "cpu_op"}
    assert names >= {name for name in ATTACKS if "\x00" not in name}


def test_what_went_wrong_is_told_in_one_line(file: Path, tmp_path: Path) -> None:
    odd = tmp_path / "\x1b[31m\u202e.json"
    odd.write_bytes(file.read_bytes()[:3000])
    for arguments in (
        ("report", odd),
        ("query", "slowest_ops", file, "-p", "op=\x1b[31m"),
        ("report", odd, "--rank", 5),
    ):
        done = CliRunner().invoke(app, list(map(str, arguments)), prog_name="hotline")
        assert not RAW.search(done.output)


# --- in a browser ----------------------------------------------------------------------------------------------------


def policy(text: str) -> str:
    found = [
        attributes["content"] or ""
        for tag, attributes in Tags(text).found
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(found) == 1
    return found[0]


def test_every_page_has_a_policy_that_names_its_scripts(trace: Trace, tmp_path: Path) -> None:
    timeline = ha.charts.timeline(trace)
    report = ha.report(trace)
    pages = [timeline.to_html(), report.to_html(timeline), report.to_html()]
    pages.append(ha.charts.save(ha.charts.draw("phases", trace), tmp_path / "c.html").read_text(encoding="utf-8"))
    for text in pages:
        said = policy(text)
        assert said.startswith("default-src 'none';")
        scripts = said.partition("script-src ")[2].partition(";")[0]
        assert "unsafe" not in scripts
        assert (scripts == "'none'") == ("<script>" not in text)


@needs_browser
def test_a_script_that_is_not_ours_does_not_run_and_nothing_is_sent(tmp_path: Path) -> None:
    """As if a name had become markup after all."""
    body = Markup(
        "<p id=p></p><script>document.title = 'owned'</script><img src='http://localhost:9/x.png' onerror=\"f()\">"
        "<img src=data:, onerror=\"document.title = 'owned'\"><base href='http://localhost:9/'>"
        "<form action='http://localhost:9/f'><input name=a></form>"
    )
    file = tmp_path / "page.html"
    file.write_text(page("title", body, scripts=("/* é\r\n\r */ document.getElementById('p').textContent = 'ran';\n",)))
    browser = Browser()
    try:
        browser.open(file)
        browser.run("document.querySelector('form').submit()")
        browser.run("new Promise((done) => setTimeout(done, 300))")
        assert browser.run("document.title") == "title"
        assert browser.run("document.getElementById('p').textContent") == "ran"
        assert browser.run("location.protocol") == "file:"
        assert browser.run("document.baseURI").startswith("file:")
        assert len([text for text in browser.complaints if "Content Security Policy" in text]) >= 4
    finally:
        browser.close()
