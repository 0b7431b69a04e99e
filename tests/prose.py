"""How plain the English of the project is: `python -m tests.prose` prints figures, `--list KIND` the sentences.

Four habits make a sentence hard to decode. A *headless* clause names no thing ("what is launched" for "the launched
work"). A *quaint* word is rare in software (behind, likewise, lest). A *long* sentence has over 40 words. A *pronoun*
sentence has more than one pronoun in five words, so the reader has to look for the nouns.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LONGEST_WORDS = 40
MOST_PRONOUNS = 0.2
_PACKAGE = ("hotline_analysis", "queries", "docs")
_PRONOUNS = frozenset(
    re.findall(
        r"\w+",
        "it its itself they them their theirs that those these this which whose who whom what one ones none nothing",
    )
)
_HEADLESS = re.compile(r"(?:^|[,;:(] ?|\b(?:of|to|by|with|in|for|and|or|than|as|from|on|at) )what (?!if\b)\w+", re.I)
_QUAINT = re.compile(
    r"\b(?:told|tells?|behind|beside|likewise|lest|mend(?:s|ed)?|but for|another one|is said|are said)\b", re.I
)
_CODE = re.compile(r"`[^`]*`|https?://\S+|\]\([^)]*\)")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`\"*])|\n\s*\n|\n\s*(?=[-*•|] )|\n(?=:\w+ )")
_DIRECTIVE = re.compile(r"^:(?:column|param) \S+ \S+(?: in \([^)]*\))?(?: [<>]= \S+)*(?: = \S+)?\s+")
_BLOCK_OF_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


class Sentence(NamedTuple):
    """A sentence of the project: its file, the line where its text begins, the kind of text, and the words."""

    file: str
    line: int
    kind: str
    text: str


def of_python(text: str) -> Iterator[tuple[str, int, str]]:
    """Return the docstrings and comments of a module: kind, line and text."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if docstring := ast.get_docstring(node):
            yield "docstring", getattr(node, "lineno", 1), docstring
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or re.match(r"#\s*(?:noqa|type:|pragma)", token.string):
            continue
        if block and token.start[0] != last + 1:
            yield "comment", last, " ".join(block)
            block = []
        block.append(token.string.lstrip("#: "))
        last = token.start[0]
    if block:
        yield "comment", last, " ".join(block)


def of_sql(text: str) -> Iterator[tuple[str, int, str]]:
    """Return the blocks of comments of a query."""
    block: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if comment := re.match(r"\s*-- ?(.*)", line):
            if not re.match(r":(?:reads|takes|only_with|scenario|kept|writes)|noqa", comment[1]):
                block.append(comment[1])
        elif block:
            yield "sql", number - len(block), "\n".join(block)
            block = []


def of_page(text: str) -> Iterator[tuple[str, int, str]]:
    """Return the paragraphs of a Markdown page, without code, tables and output."""
    prose = _BLOCK_OF_CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", prose):
        if (
            paragraph.strip()
            and not paragraph.lstrip().startswith(("|", "<!--", "#"))
            and not paragraph.startswith("    ")
        ):
            yield "page", line, paragraph
        line += paragraph.count("\n")


_READERS = {".py": of_python, ".sql": of_sql, ".md": of_page}


def sentences(root: Path = ROOT) -> Iterator[Sentence]:
    """Every sentence in the package, the queries and the pages that people wrote."""
    files = [file for folder in _PACKAGE for file in sorted((root / folder).rglob("*")) if file.suffix in _READERS]
    for file in [*files, *sorted(root.glob("*.md"))]:
        name = file.relative_to(root).as_posix()
        for kind, line, text in _READERS[file.suffix](file.read_text(encoding="utf-8")):
            for each in _SENTENCE_END.split(text):
                words = _DIRECTIVE.sub("", re.sub(r"\s+", " ", each).strip(" -*•"))
                if len(words.split()) > 2:
                    yield Sentence(name, line, kind, words)


def habits(sentence: str) -> set[str]:
    """Which of the four habits a sentence has."""
    plain = _CODE.sub("x", sentence)
    words = [word.lower() for word in _WORD.findall(plain)]
    found = set()
    if _HEADLESS.search(plain) and not plain.endswith("?"):
        found.add("headless")
    if _QUAINT.search(plain):
        found.add("quaint")
    if len(words) > LONGEST_WORDS:
        found.add("long")
    if len(words) > 4 and sum(word in _PRONOUNS for word in words) > MOST_PRONOUNS * len(words):
        found.add("pronouns")
    return found


def main() -> None:
    """Print the share of sentences with each habit, or the sentences with one."""
    parser = argparse.ArgumentParser(prog="python -m tests.prose", description=__doc__)
    parser.add_argument("--list", choices=["headless", "quaint", "long", "pronouns"], help="print these sentences")
    wanted = parser.parse_args().list
    every = list(sentences())
    if wanted:
        for sentence in every:
            if wanted in habits(sentence.text):
                print(f"{sentence.file}:{sentence.line}: {sentence.text}")
        return
    for habit in ("headless", "quaint", "long", "pronouns"):
        count = sum(habit in habits(sentence.text) for sentence in every)
        print(f"{habit:10} {count:5} of {len(every):,} sentences, {100 * count / len(every):.1f} %")


if __name__ == "__main__":
    main()
