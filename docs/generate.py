"""Write the generated parts of the repository, or check that they are up to date (`--check`).

`generate_api.py` provides the stubs of the package: signatures of single-query answers, and lists of public names. The
pictures show the demo trace. In a page, a fenced block after a line `<!-- output of: COMMAND -->` shows the output of
the command. Pages made from headers, the schema and `--help` are no files: `site.py` adds these pages to the site.
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
from docs import generate_api
from docs.markdown import COLUMNS
from hotline_analysis import catalog
from hotline_analysis.annotation.pipeline import PIPELINE

ROOT = Path(__file__).parents[1]
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
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    if not argv:
        draw_pictures(ROOT / "docs/pictures")
    return 1 if argv and stale else 0


def draw_pictures(folder: Path) -> None:
    """Draw the pictures of the demo trace. `--check` skips the pictures, which depend on the machine's fonts."""
    folder.mkdir(exist_ok=True)
    with ha.load(ha.demo_trace()) as trace:
        ha.charts.timeline(trace).save(folder / "timeline.svg")
        ha.charts.modules(ha.modules(trace)).properties(background="white").save(folder / "modules.svg")


def stale_pages() -> Iterator[tuple[Path, str]]:
    """Yield each outdated stub or page, and its new text."""
    generated = {
        ROOT / "hotline_analysis/answers/generated.pyi": generate_api.generated_stub(),
        ROOT / "hotline_analysis/__init__.pyi": generate_api.stub(),
        ROOT / "hotline_analysis/answers/__init__.pyi": generate_api.answers_stub(),
        ROOT / "hotline_analysis/charts/__init__.pyi": generate_api.charts_stub(),
    }
    written = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for path, text in generated.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield path, text
    for path in written:
        old = path.read_text(encoding="utf-8")
        if (new := with_outputs(old)) != old:
            yield path, new


def _difference(path: Path, text: str) -> Iterator[str]:
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return unified_diff(old, text.splitlines(), "in the repository", "as generated", lineterm="")


# --- examples in pages -----------------------------------------------------------------------------------------------


def pipeline_list() -> str:
    """The queries of the annotation, in execution order."""
    files = {query.name: query.file for query in catalog.queries("annotate")}
    lines = []
    for number, stage in enumerate(PIPELINE, start=1):
        links = ", ".join(f"[`{name}`](../queries/{files[name]})" for name in stage.queries)
        what = stage.condition or catalog.get(stage.queries[0]).summary
        said = what if what[1:2].isupper() else f"{what[:1].lower()}{what[1:]}"  # CPU stays
        lines.append(f"{number}. {links}: {said.rstrip('.')}.")
    return "\n".join(lines) + "\n"


def with_outputs(page: str) -> str:
    """Return the page with the current output of each example, and the current list of the pipeline."""
    page = PIPELINE_LIST.sub(lambda match: f"{match['begin']}{pipeline_list()}{match['end']}", page)
    if len(MARKER.findall(page)) != len(EXAMPLE.findall(page)):
        raise SystemExit("a line `<!-- output of: … -->` must be followed by a fenced block")
    return EXAMPLE.sub(
        lambda match: f"<!-- output of: {match['command']} -->\n{match['fence']}\n{run_example(match['command'])}```",
        page,
    )


def run_example(command: str) -> str:
    """Run a command in the root of the repository and return its output without trailing spaces."""
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
