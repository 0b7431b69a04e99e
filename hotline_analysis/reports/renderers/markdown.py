"""A report as GitHub-flavoured Markdown."""

from __future__ import annotations

import re

from hotline_analysis.reports.content import Section, cell
from hotline_analysis.reports.whole import Content


def render(report: Content) -> str:
    """Render headings, lists and tables. Markdown and HTML markup in names is escaped."""
    lines = [f"# {escape(report.title)}", ""]
    lines += [f"- {escape(name)}: {escape(value)}" for name, value in report.facts.items()]
    lines += ["", f"**{escape(report.lead)}**", ""]
    if report.headline != report.lead:
        lines += [escape(report.headline), ""]
    if report.advice:
        lines += ["## What to do, and how much shorter the step is without the cause", ""]
        lines += [f"{number}. {escape(str(advice))}" for number, advice in enumerate(report.advice, start=1)]
        lines += [""]
    if report.caveats:
        lines += ["## Before you believe it", "", *(f"- {escape(caveat)}" for caveat in report.caveats), ""]
    lines += [f"- **{escape(finding.question)}** {escape(finding.statement)}" for finding in report.findings]
    for section in report.sections:
        lines += ["", f"## {escape(section.title)}", "", *_table(section), "", escape(section.note)]
    lines += ["", "## Coverage", "", escape(report.coverage)]
    if report.recapture:
        lines += ["", "## To know more", "", *(f"- {escape(hint)}" for hint in report.recapture)]
    if report.warnings:
        lines += ["", "## Warnings", "", *(f"- {escape(warning)}" for warning in report.warnings)]
    return "\n".join(lines) + "\n"


def _table(section: Section) -> list[str]:
    head = "| " + " | ".join(escape(field.title) for field in section.fields) + " |"
    rule = "|" + "|".join("---" if field.is_text else "---:" for field in section.fields) + "|"
    body = [
        "| " + " | ".join(escape(cell(field, row[field.column])) for field in section.fields) + " |"
        for row in section.rows.iter_rows(named=True)
    ]
    return [head, rule, *body]


def escape(text: str) -> str:
    """Escape Markdown and HTML markup in a text."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|#~!$])", r"\\\1", text)
    # GitHub turns URLs into links, and notifies users mentioned with @.
    text = re.sub(r"(?i)(?<=:)(?=//)|(?<=\bwww)(?=\.)", r"\\", text)
    return text.replace("@", "@&#8203;")
