"""Write the generated parts of the documentation, or check that they are up to date (`--check`).

The functions of answers that are one query each, and the lists of public names, come from `generate_api.py`.
`docs/tables/` comes from the schema, `docs/queries/` from the headers of the queries, `docs/cli/` from `--help`.
The pictures show the demo trace. In every other page, a fenced block that follows a line `<!-- output of: COMMAND -->`
shows what the command prints.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path

import hotline_analysis as ha
from docs import generate_api, generate_cli, generate_queries, generate_tables
from docs.markdown import COLUMNS
from hotline_analysis import catalog
from hotline_analysis.annotation.pipeline import PIPELINE

ROOT = Path(__file__).parents[1]
# The folders of generated pages.
FOLDERS = {"cli": generate_cli.pages, "queries": generate_queries.pages, "tables": generate_tables.pages}
EXAMPLE = re.compile(
    r"^<!-- output of: (?P<command>.+?) -->\n(?P<fence>```\w*)\n(?P<output>.*?)^```$", re.DOTALL | re.MULTILINE
)
PIPELINE_LIST = re.compile(r"(?P<begin><!-- the pipeline -->\n).*?(?P<end><!-- end of the pipeline -->)", re.DOTALL)
MARKER = re.compile(r"^<!-- output of: ", re.MULTILINE)


def main(argv: Sequence[str]) -> int:
    if argv not in ([], ["--check"]):
        print("usage: python docs/generate.py [--check]", file=sys.stderr)
        return 2
    stale = dict(stale_pages())
    for path, text in stale.items():
        name = path.relative_to(ROOT).as_posix()
        if argv:
            print(f"{name} is stale; run `make docs`")
            print("\n".join([*_difference(path, text)][:20]))
        elif text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
        else:
            path.unlink()
            print(f"removed {name}")
    if not argv:
        draw_pictures(ROOT / "docs/pictures")
    return 1 if argv and stale else 0


def draw_pictures(folder: Path) -> None:
    """Draw the pictures of the demo trace. `--check` leaves them out: they depend on the fonts of the machine."""
    folder.mkdir(exist_ok=True)
    with ha.load(ha.demo_trace()) as trace:
        ha.charts.timeline(trace).save(folder / "timeline.svg")
        ha.charts.modules(ha.modules(trace)).properties(background="white").save(folder / "modules.svg")


def stale_pages() -> Iterator[tuple[Path, str]]:
    """Yield each page that differs from what it should be, and its new text."""
    generated = {
        ROOT / "hotline_analysis/answers/generated.py": formatted(generate_api.answers_module()),
        ROOT / "hotline_analysis/__init__.pyi": generate_api.stub(),
        ROOT / "hotline_analysis/charts/__init__.pyi": generate_api.charts_stub(),
    }
    for folder, pages in FOLDERS.items():
        generated |= {ROOT / "docs" / folder / name: text for name, text in pages().items()}
    written = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for path, text in generated.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield path, text
    for path in sorted(path for folder in FOLDERS for path in (ROOT / "docs" / folder).glob("*.md")):
        if path not in generated:
            yield path, ""  # its subject is gone
    for path in written:
        old = path.read_text(encoding="utf-8")
        if (new := with_outputs(old)) != old:
            yield path, new


def formatted(source: str) -> str:
    """Python code as the linter wants it."""
    command = [str(Path(sys.executable).parent / "ruff"), "format", "--stdin-filename", "generated.py", "-"]
    return subprocess.run(command, input=source, cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout


def _difference(path: Path, text: str) -> Iterator[str]:
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return unified_diff(old, text.splitlines(), "in the repository", "as generated", lineterm="")


# --- examples in pages -----------------------------------------------------------------------------------------------


def pipeline_list() -> str:
    """The queries of the annotation, in the order in which they run."""
    pages = {query.name: generate_queries.page_of(query) for query in catalog.queries("annotate")}
    lines = []
    for number, stage in enumerate(PIPELINE, start=1):
        links = ", ".join(f"[`{name}`](queries/{pages[name]}#{name})" for name in stage.queries)
        what = stage.condition or catalog.get(stage.queries[0]).summary
        lines.append(f"{number}. {links}: {what[:1].lower()}{what[1:].rstrip('.')}.")
    return "\n".join(lines) + "\n"


def with_outputs(page: str) -> str:
    """Return the page with each example's output as the command prints it now, and the order of the tables."""
    page = PIPELINE_LIST.sub(lambda match: f"{match['begin']}{pipeline_list()}{match['end']}", page)
    if len(MARKER.findall(page)) != len(EXAMPLE.findall(page)):
        raise SystemExit("a line `<!-- output of: … -->` must be followed by a fenced block")
    return EXAMPLE.sub(
        lambda match: f"<!-- output of: {match['command']} -->\n{match['fence']}\n{run_example(match['command'])}```",
        page,
    )


def run_example(command: str) -> str:
    """Run a command in the root of the repository and return what it prints, without trailing spaces."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    hidden = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"PATH": path, "COLUMNS": str(COLUMNS), "NO_COLOR": "1", "PYTHONUTF8": "1"}
    arguments = shlex.split(command)
    try:
        done = subprocess.run(
            arguments, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=300
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemExit(f"`{command}` failed: {error}") from None
    if done.returncode != 0:
        raise SystemExit(f"`{command}` failed with exit status {done.returncode}: {done.stderr.strip()}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.rstrip().splitlines())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
