"""A verdict as text, Markdown, JUnit XML and plain values."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hotline_analysis.gating.rules import Unit, parse
from hotline_analysis.reports.renderers.markdown import escape
from hotline_analysis.text.formats import delta, duration, folded, safe, shorten, size

if TYPE_CHECKING:
    from hotline_analysis.gating.verdict import Changed, Check, Verdict

_WIDEST = 60
_MARKS = {"pass": "✅", "fail": "❌", "cannot tell": "❔"}


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """All of it in types that JSON has: times in nanoseconds, sizes in bytes."""
    return {
        "answer": verdict.answer,
        "statement": verdict.statement,
        "base": list(verdict.base),
        "new": list(verdict.new),
        "checks": [asdict(check) for check in verdict.checks],
        "changed": [asdict(each) for each in verdict.changed],
        "notes": list(verdict.notes),
    }


def amount(value: float | None, unit: Unit) -> str:
    """A value of a metric."""
    if value is None:
        return "–"
    return duration(value) if unit == "ns" else size(value) if unit == "bytes" else f"{value:.3g} %"


def _difference(value: float | None, check: Check) -> str:
    """A change, or where a limit is a value, the value."""
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
    """What a check found, as a part of a sentence."""
    if check.change is None:
        return f"{_metric(check.metric)}: {safe(check.reason)}"
    values = f"{amount(check.base, check.value_unit)} → {amount(check.new, check.value_unit)}"
    if not _has_sign(check):
        values = amount(check.new, check.value_unit)
        return f"{_metric(check.metric)} {values}, {check.reason} ({safe(check.rule)})"
    of = {"quick steps": " in its quick steps", "median": " in the median" if check.value_unit == "ns" else ""}.get(
        check.of, ""
    )
    change = _difference(check.change, check)
    return f"{_metric(check.metric)} {values}{of}, {change}, {check.reason} ({safe(check.rule)})"


def _metric(name: str) -> str:
    return shorten(safe(name), _WIDEST)


_HEAD = ("check", "rule", "base", "new", "change", "between", "detectable", "verdict")
_SHOWN = 30  # checks in text and Markdown; JUnit and JSON have all of them
_ORDER = ("fail", "cannot tell", "pass")


def _rows(verdict: Verdict) -> tuple[list[tuple[str, ...]], str]:
    """The checks, what failed first, and how many more there are, in words."""
    checks = sorted(verdict.checks, key=lambda check: _ORDER.index(check.answer))
    more = checks[_SHOWN:]
    counts = [f"{count} {word}" for word in _ORDER if (count := sum(check.answer == word for check in more))]
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
    return rows, f"and {len(more)} more checks: {', '.join(counts)}" if more else ""


def _why(check: Check) -> str:
    if check.value_unit == "ns" and check.of != "mean":
        return f"{safe(check.reason)}, in {'quick steps' if check.of == 'quick steps' else 'the median'}"
    return safe(check.reason)


def _between(check: Check) -> str:
    if check.low is None or check.high is None:
        return "–"
    if _has_sign(check) and check.unit not in ("ns", "bytes"):
        return f"{check.low:+.2f} to {check.high:+.2f} {check.unit}".replace("-", "−")
    return f"{_difference(check.low, check)} to {_difference(check.high, check)}"


def _size(value: float | None, check: Check) -> str:
    """A change without its direction."""
    if value is None:
        return "–"
    return f"{value:.2f} {check.unit}" if check.unit not in ("ns", "bytes") else amount(value, check.value_unit)


_CHANGED = ("what changed most", "base", "new", "change", "")


def _changed_rows(changed: Sequence[Changed]) -> list[tuple[str, ...]]:
    noise = {None: "", True: "within noise", False: "beyond noise"}
    return [
        (
            _metric(each.metric),
            duration(each.base_ns),
            duration(each.new_ns),
            delta(each.change_ns),
            noise[each.within_noise],
        )
        for each in changed
    ]


def to_text(verdict: Verdict, width: int | None = None) -> str:
    """Text for a terminal; the first line is the verdict, or its first lines if sentences are folded at a width."""
    rows, more = _rows(verdict)
    said = folded(f"{verdict.answer.upper()}: {verdict.statement}", width)
    lines = [said, "", *_text_table(_HEAD, rows), *([more] if more else [])]
    if verdict.changed:
        lines += ["", *_text_table(_CHANGED, _changed_rows(verdict.changed))]
    if verdict.notes:
        lines += ["", *(folded(safe(note), width) for note in verdict.notes)]
    return "\n".join(lines) + "\n"


def _text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]
    ]
    return [lines[0], rule, *lines[1:]]


def to_markdown(verdict: Verdict) -> str:
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


def to_junit(verdict: Verdict) -> str:
    """JUnit XML, as GitLab, Jenkins and others read it: a failure fails, and what cannot be told is an error."""
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
            found = ET.SubElement(case, kind, message=sentence(check), type=check.answer)
            found.text = "\n".join([verdict.statement, *map(safe, verdict.notes)])
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
