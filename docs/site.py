"""Pages of the site without a file in the repository. MkDocs calls `on_…` during the build (`hooks` in `mkdocs.yml`).

These are the README as the first page, the pages of commands, queries and tables, a page per query with example rows,
all public names of the package, and a gallery of all charts. Examples and charts show the demo trace. A link to the SQL
file of a query leads to the query's page. Links to other files outside the site lead to `repo_url`; without `repo_url`
only their text remains.
"""

from __future__ import annotations

import functools
import posixpath
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

import hotline_analysis as ha
from docs import generate_api, generate_cli, generate_queries, generate_tables
from docs.markdown import COLUMNS
from hotline_analysis.answers import generated
from hotline_analysis.catalog import Query
from hotline_analysis.charts.registry import CHARTS, Kind
from hotline_analysis.cli import app

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:`[^`\n]*`|[^`\[\]])*)\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINES = 14  # maximum length of an example
# The parts of the package with public names, in the order in which users need them.
_REFERENCE = {
    "run": "Traces and runs",
    "importer": "Importing",
    "capture": "Capturing",
    "answers": "Answers",
    "prediction": "Predictions",
    "reports": "Reports",
    "gating": "Gates",
    "export": "Exports",
    "charts": "Charts",
    "errors": "Errors",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace each folder in the navigation by the pages of the folder."""
    folders: dict[str, list[str]] = {}
    for name in generated_pages():
        folders.setdefault(name.partition("/")[0], []).append(name)
    folders |= {"query": sorted(page_of(query) for query in generate_queries.documented())}
    folders |= {"reference": [f"reference/{part}.md" for part in _REFERENCE]}
    config.nav = _with_folders(config.nav, folders)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    pages: dict[str, str | bytes] = {"index.md": (ROOT / "README.md").read_text(encoding="utf-8")}
    pages |= {**generated_pages(), **reference_pages()}
    with tempfile.TemporaryDirectory() as folder:
        ha.import_traces(ha.demo_trace(), Path(folder) / "demo.hotline")
        pages |= query_pages(Path(folder) / "demo.hotline")
        with ha.load(Path(folder) / "demo.hotline") as demo, ha.load(ROOT / "tests/data/gloo") as ranks:
            pages |= gallery(demo, ranks)
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to pages of the site, or to the repository."""
    is_readme = page.file.src_uri == "index.md"
    folder = ROOT if is_readme else (ROOT / "docs" / page.file.src_uri).parent

    def led(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        at = posixpath.normpath((folder / target).as_posix())
        in_repository = posixpath.relpath(at, ROOT.as_posix())
        inside = _pages_of_files().get(in_repository) or posixpath.relpath(at, (ROOT / "docs").as_posix())
        if inside == page.file.src_uri and not anchor:
            return match["text"]
        if (file := files.get_file_from_path(inside)) and file.inclusion.is_included():  # type: ignore[no-untyped-call]
            there = posixpath.relpath(inside, posixpath.dirname(page.file.src_uri) or ".")
            return f"[{match['text']}]({there}{'#' if anchor else ''}{anchor})"
        return f"[{match['text']}]({config.repo_url}/blob/main/{in_repository})" if config.repo_url else match["text"]

    parts = _FENCE.split(markdown)
    fences = _FENCE.findall(markdown)
    text = "".join(_LINK.sub(led, part) + fence for part, fence in zip(parts, [*fences, ""], strict=True))
    return text.replace("](docs/pictures/", "](pictures/") if is_readme else text


def _with_folders(nav: Any, folders: Mapping[str, Sequence[str]]) -> Any:
    if isinstance(nav, str):
        return list(folders[nav[:-1]]) if nav.endswith("/") else nav
    if isinstance(nav, dict):
        return {title: _with_folders(item, folders) for title, item in nav.items()}
    return [_with_folders(item, folders) for item in nav]


# --- the pages -------------------------------------------------------------------------------------------------------


def page_of(query: Query) -> str:
    """The page of a query. Names are unique, including private queries."""
    return f"query/{query.name}.md"


@functools.cache
def _pages_of_files() -> Mapping[str, str]:
    """The page of each query by the query's file, relative to the repository."""
    return {f"queries/{query.file}": page_of(query) for query in generate_queries.documented() if query.sql}


@functools.cache
def generated_pages() -> Mapping[str, str]:
    """The pages of commands, queries and tables: for each folder the index, then the pages by name."""
    folders = {"cli": generate_cli.pages(), "queries": generate_queries.pages(), "tables": generate_tables.pages()}
    return {
        f"{folder}/{name}": pages[name]
        for folder, pages in folders.items()
        for name in sorted(pages, key=lambda name: (name != "README.md", name))
    }


def query_pages(run: Path) -> dict[str, str]:
    """A page for each query: its header and, for an answer, the first rows of the demo trace."""
    pages = {}
    for query in generate_queries.documented():
        lines = [line.replace("## ", "# ", 1) for line in generate_queries.section(query, with_columns=True)]
        lines += [*_neighbours(query), *(example(query, run) if query.kind == "answers" else ())]
        pages[page_of(query)] = "\n".join(lines).lstrip() + "\n"
    return pages


def _neighbours(query: Query) -> Iterator[str]:
    page = generate_queries.page_of(query)
    yield from ["", f"More of this subject: [{generate_queries.page_title(page)}](../queries/{page})."]


def example(query: Query, run: Path) -> Iterator[str]:
    """The output of the command for the demo trace; empty for a query with required parameters."""
    command = f"hotline query {query.name} {run}"
    done = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="hotline", env={"COLUMNS": str(COLUMNS)})
    if done.exit_code != 0 or not done.stdout.strip():
        return
    lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
    rest = ["…"] if len(lines) > _LINES else []
    yield from ["", "## Example", "", "```text", f"$ hotline query {query.name} {run.name}"]
    yield from [*lines[:_LINES], *rest, "```"]


def public_names() -> dict[str, list[str]]:
    """The public names of each part of the package, with the modules that define them."""
    names: dict[str, list[str]] = {part: [] for part in _REFERENCE}
    for name in (name for each in generate_api.public_names().values() for name in each):
        value = getattr(ha, name)
        part = "importer" if name == "demo_trace" else value.__module__.split(".")[1]
        names[part].append(f"{value.__module__}.{name}")
    charts = {name: getattr(ha.charts, name) for name in dir(ha.charts) if not name.startswith("_")}
    names["charts"] = [f"{chart.__module__}.{name}" for name, chart in charts.items() if callable(chart)]
    return names


def reference_pages() -> dict[str, str]:
    """A page for each part of the package, with all its public names."""
    pages = {}
    for part, names in public_names().items():
        lines = [f"# {_REFERENCE[part]}", ""]
        for name in sorted(names, key=lambda name: name.rpartition(".")[2].lower()):
            lines += [f"::: {name}", ""]
            if name.startswith(f"{generated.__name__}."):
                query = name.rpartition(".")[2]
                lines += [f"[Parameters and columns of `{query}`](../query/{query}.md)", ""]
        pages[f"reference/{part}.md"] = "\n".join(lines)
    return pages


def gallery(*traces: ha.Trace) -> dict[str, str | bytes]:
    """A page with every chart of a single trace, drawn for the first given trace with data for the chart."""
    lines = [
        "# Gallery",
        "",
        "Every chart of one trace: `hotline chart NAME TRACE`, or `ha.charts.NAME(trace)`. They show",
    ]
    lines += ["the demo trace or, where that has nothing to show, a job of four ranks.", ""]
    pictures: dict[str, str | bytes] = {}
    for name, kind in CHARTS.items():
        drawn = (picture for trace in traces if kind.traces == 1 and (picture := _picture(kind, trace)))
        if picture := next(drawn, None):
            pictures[f"gallery/{name}.png"] = picture
            lines += [f"## {name}", "", kind.summary, "", f"![{name}](gallery/{name}.png)", ""]
    return {"gallery.md": "\n".join(lines), **pictures}


def _picture(kind: Kind, trace: ha.Trace) -> bytes | None:
    """The picture of a chart as PNG bytes; `None` if the chart has no data."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "chart"
        try:
            chart = kind.make(trace)
            chart.save(picture.with_suffix(".svg"))
            if "nothing to show" in picture.with_suffix(".svg").read_text(encoding="utf-8"):
                return None
            chart.save(picture.with_suffix(".png"))
        except ha.HotlineError:
            return None  # the trace lacks data for this chart
        return picture.with_suffix(".png").read_bytes()
