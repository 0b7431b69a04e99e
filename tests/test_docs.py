import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import generate

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors that a page gets from its headings, as GitHub and most Markdown tools make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ +(.+?) *$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_internal_links_resolve(page: Path) -> None:
    # Code is left out: what looks like a link there is none. A link's own text may be code.
    text = CODE.sub("code", page.read_text(encoding="utf-8"))
    broken = []
    for match in LINK.finditer(text):
        target = match["target"]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


EXAMPLES = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages - set(LINK.findall(text)) == set()


def test_capture_in_the_readme_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", EXAMPLES[0]], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.search(r"^run\.json\.gz: .* · CPU only · rank 0 · 3 steps of ", done.stdout, re.MULTILINE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.hotline", "run.html", "run.json.gz"]


def test_python_in_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(EXAMPLES) == 2
    exec(EXAMPLES[1], {})
    assert capsys.readouterr().out.startswith("UNet · H100")


def test_outputs_of_examples_are_replaced() -> None:
    page = "Before.\n\n<!-- output of: {} -->\n```text\n{}```\n\nAfter.\n"
    command = f"{sys.executable} -c \"print('x  ')\""
    assert generate.with_outputs(page.format(command, "old\n")) == page.format(command, "x\n")
    assert generate.with_outputs(page.format(command, "")) == page.format(command, "x\n")


@pytest.mark.parametrize(
    "page",
    [
        "<!-- output of: true -->\n\n```text\n```\n",
        "<!-- output of: true -->\n",
        "<!-- output of: false -->\n```\n```\n",
        "<!-- output of: no-such-command -->\n```\n```\n",
    ],
)
def test_an_example_that_cannot_be_run_is_an_error(page: str) -> None:
    with pytest.raises(SystemExit):
        generate.with_outputs(page)


def test_check_names_what_is_stale(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    readme = ROOT / "README.md"
    before = readme.read_text(encoding="utf-8")
    monkeypatch.setattr(generate, "stale_pages", lambda: [(readme, "something else\n")])
    assert generate.main(["--check"]) == 1
    assert "README.md is stale" in capsys.readouterr().out
    assert readme.read_text(encoding="utf-8") == before
    monkeypatch.setattr(generate, "stale_pages", lambda: [])
    assert generate.main(["--check"]) == 0
