"""A verdict as text, Markdown, JUnit XML and plain values."""

from __future__ import annotations

import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hotline_analysis.gating.checks import Changed, Check, Outcome
from hotline_analysis.gating.rules import Unit, parse
from hotline_analysis.reports.renderers.markdown import escape
from hotline_analysis.text.formats import delta, duration, folded, safe, shorten, size

_WIDEST = 60
_MARKS = {"pass": "✅", "fail": "❌", "cannot tell": "❔"}


def as_dict(verdict: Outcome) -> dict[str, Any]:
    """The verdict as JSON types: times in nanoseconds, sizes in bytes."""
    return {
        "answer": verdict.answer,
        "statement": verdict.statement,
        "base": list(verdict.base),
        "new": list(verdict.new),
        "checks": [asdict(check) for check in verdict.checks],
        "changed": [asdict(change) for change in verdict.changed],
        "notes": list(verdict.notes),
    }


def amount(value: float | None, unit: Unit) -> str:
    """A formatted value of a metric."""
    if value is None:
        return "–"
    return duration(value) if unit == "ns" else size(value) if unit == "bytes" else f"{value:.3g} %"


def _difference(value: float | None, check: Check) -> str:
    """A formatted change, or the value itself if the limit is a value."""
    if value is None:
        return "–"
    if not _has_sign(check):
        return amount(value, check.value_unit)
    if check.unit == "ns":
        return delta(value)
    sign = "+" if value > 0 else "−" if value < 0 else ""
    if check.unit == "bytes":
        return f"{sign}{size(abs(value))}"
    return f"{sign}{abs(value):.2f} {check.unit}"


def _has_sign(check: Check) -> bool:
    """Whether the limit of a check is a change."""
    return parse(check.rule).kind != "level"


def sentence(check: Check) -> str:
    """The result of a check, as part of a sentence."""
    if check.change is None:
        return f"{_metric(check.metric)}: {safe(check.reason)}"
    values = f"{amount(check.base, check.value_unit)} → {amount(check.new, check.value_unit)}"
    if not _has_sign(check):
        values = amount(check.new, check.value_unit)
        return f"{_metric(check.metric)} {values}, {check.reason} ({safe(check.rule)})"
    qualifier = {
        "quick steps": " in its quick steps",
        "median": " in the median" if check.value_unit == "ns" else "",
    }.get(check.of, "")
    change = _difference(check.change, check)
    more = f"; record {check.steps_needed:,} steps" if check.steps_needed else ""
    return f"{_metric(check.metric)} {values}{qualifier}, {change}, {check.reason}{more} ({safe(check.rule)})"


def _metric(name: str) -> str:
    return shorten(safe(name), _WIDEST)


_HEAD = ("check", "rule", "base", "new", "change", "between", "detectable", "verdict")
_SHOWN = 30  # checks in text and Markdown; JUnit and JSON have all of them
_DETAILS = ("detectable", "between")  # columns that narrow terminals do without; JSON has them
_GIVE_WAY = ("detectable", "verdict", "rule", "between")  # columns that are left out or cut, in order
_READABLE = 16  # a text that is cut to less hardly says what it is
_ORDER = ("fail", "cannot tell", "pass")


def _rows(verdict: Outcome) -> tuple[list[tuple[str, ...]], str]:
    """The checks, failed checks first, and a text with the number of omitted checks."""
    checks = sorted(verdict.checks, key=lambda check: _ORDER.index(check.answer))
    remainder = checks[_SHOWN:]
    counts = [f"{count} {word}" for word in _ORDER if (count := sum(check.answer == word for check in remainder))]
    rows: list[tuple[str, ...]] = [
        (
            _metric(check.metric),
            shorten(safe(check.rule), _WIDEST),
            amount(check.base, check.value_unit),
            amount(check.new, check.value_unit),
            _difference(check.change, check) if _has_sign(check) else "–",
            _between(check),
            _size(check.detectable, check),
            check.answer + ("" if check.answer == "pass" else f": {_why(check)}"),
        )
        for check in checks[:_SHOWN]
    ]
    return rows, f"and {len(remainder)} more checks: {', '.join(counts)}" if remainder else ""


def _why(check: Check) -> str:
    if check.value_unit == "ns" and check.of != "mean":
        return f"{safe(check.reason)}, in {'quick steps' if check.of == 'quick steps' else 'the median'}"
    return safe(check.reason) + (f"; record {check.steps_needed:,} steps" if check.steps_needed else "")


def _between(check: Check) -> str:
    if check.low is None or check.high is None:
        return "–"
    if _has_sign(check) and check.unit not in ("ns", "bytes"):
        return f"{check.low:+.2f} to {check.high:+.2f} {check.unit}".replace("-", "−")
    return f"{_difference(check.low, check)} to {_difference(check.high, check)}"


def _size(value: float | None, check: Check) -> str:
    """The size of a change, without its direction."""
    if value is None:
        return "–"
    return f"{value:.2f} {check.unit}" if check.unit not in ("ns", "bytes") else amount(value, check.value_unit)


_CHANGED = ("what changed most", "base", "new", "change", "")


def _changed_rows(changed: Sequence[Changed]) -> list[tuple[str, ...]]:
    noise = {None: "", True: "within noise", False: "beyond noise"}
    return [
        (
            _metric(change.metric),
            duration(change.base_ns),
            duration(change.new_ns),
            delta(change.change_ns),
            noise[change.within_noise],
        )
        for change in changed
    ]


def to_text(verdict: Outcome, width: int | None = None) -> str:
    """Text for a terminal. The verdict is the first line, or the first lines if sentences are wrapped."""
    rows, more = _rows(verdict)
    said = folded(f"{verdict.answer.upper()}: {verdict.statement}", width)
    lines = [said, "", *_text_table(_HEAD, rows, width), *([more] if more else [])]
    if verdict.changed:
        lines += ["", *_text_table(_CHANGED, _changed_rows(verdict.changed), width)]
    if verdict.notes:
        lines += ["", *(folded(safe(note), width) for note in verdict.notes)]
    return "\n".join(lines) + "\n"


def _text_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """A table that fits: columns give way in order. The last one goes on in further lines, the others are cut."""
    kept = list(range(len(head)))
    widths = [max(len(row[place]) for row in [head, *rows]) for place in kept]

    def too_much() -> int:
        return 0 if width is None else sum(widths[place] for place in kept) + 2 * (len(kept) - 1) - width

    last = len(head) - 1
    for name in (*_GIVE_WAY, head[0]):
        place = head.index(name) if name in head else None
        if place is None or too_much() <= 0:
            continue
        if name in _DETAILS:
            kept.remove(place)
        else:
            widths[place] = max(min(widths[place], _READABLE), widths[place] - too_much())
    rule = "─" * (sum(widths[place] for place in kept) + 2 * (len(kept) - 1))
    lines: list[str] = []
    for number, row in enumerate([head, *rows]):
        texts = {place: [shorten(row[place], widths[place])] for place in kept}
        texts[last] = textwrap.wrap(row[last], max(1, widths[last])) or [""]
        for line in range(len(texts[last])):
            cells = [texts[place][line] if line < len(texts[place]) else "" for place in kept]
            padded = (f"{cell:<{widths[place]}}" for cell, place in zip(cells, kept, strict=True))
            lines.append("  ".join(padded).rstrip())
        if not number:
            lines.append(rule)
    return lines


def to_markdown(verdict: Outcome) -> str:
    """GitHub-flavoured Markdown; names of the trace are escaped."""
    lines = [f"## {_MARKS[verdict.answer]} Performance: {verdict.answer}", "", escape(safe(verdict.statement)), ""]
    rows, more = _rows(verdict)
    lines += [*_markdown_table(_HEAD, rows), *(["", more] if more else [])]
    if verdict.changed:
        lines += ["", "<details><summary>What changed most</summary>", ""]
        lines += [*_markdown_table(_CHANGED, _changed_rows(verdict.changed)), "", "</details>"]
    lines += ["", *(f"- {escape(safe(note))}" for note in verdict.notes)] if verdict.notes else []
    return "\n".join(lines) + "\n"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows)]


def to_junit(verdict: Outcome) -> str:
    """JUnit XML for GitLab, Jenkins and others: a failed check is a failure, an undecided check an error."""
    counts = {word: str(sum(check.answer == word for check in verdict.checks)) for word in _MARKS}
    suite = ET.Element(
        "testsuite",
        name="hotline gate",
        tests=str(len(verdict.checks)),
        failures=counts["fail"],
        errors=counts["cannot tell"],
        skipped="0",
    )
    for check in verdict.checks:
        case = ET.SubElement(
            suite, "testcase", classname="hotline.gate", name=f"{_metric(check.metric)}: {safe(check.rule)}"
        )
        if check.answer != "pass":
            kind = "failure" if check.answer == "fail" else "error"
            element = ET.SubElement(case, kind, message=sentence(check), type=check.answer)
            element.text = "\n".join([verdict.statement, *map(safe, verdict.notes)])
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
