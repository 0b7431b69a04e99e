"""A report as one screen of text: at most 45 lines, and the commands to show more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.style import Style

from hotline_analysis.answers.slowest import ANY_COLLECTIVE
from hotline_analysis.reports.content import Action, Section
from hotline_analysis.reports.picture import CAUSE
from hotline_analysis.reports.renderers.strips import Strip, share_line, strips, to_ascii
from hotline_analysis.reports.sections.sentence import NO_CHANGE, op_name
from hotline_analysis.reports.whole import Content
from hotline_analysis.text.formats import (
    duration,
    file_and_line,
    folded,
    module_name,
    shared_path,
    shorten,
    shorten_place,
    whole_percent,
)

MOST_LINES = 45
_PLACES = 3
_PHASES = 6
_TWO = 2
_WIDEST = 100  # longer lines are hard to read
_BAR = 20
_LONGEST_NAME = 36  # maximum length of a place next to a source line
_READABLE = 12  # minimum width of a recognisable name
_GAP = 2  # between columns
_INDENT_OF_CODE = 4
_OPEN = ("(", ",")  # ends of a line whose statement goes on
_APART = 0.1  # explain a difference of at least this share between a step and its marks
_BOLD, _TITLE, _DIM, _WARNING = (Style.parse(each) for each in ("bold", "bold cyan", "dim", "yellow"))
_HOT = Style.parse("bold magenta")
_STATES = {
    state: Style.parse(color)
    for state, color in (
        *(("load_data", "yellow"), ("forward", "blue"), ("zero_grad", "cyan"), ("backward", "red")),
        *(("clipping", "bright_yellow"), ("optimizer", "green"), (CAUSE, "bold magenta")),
    )
}
_KINDS_OF_PLACES = ("function", "region", "module", "likely", "without a name")  # phases have a separate table


@dataclass(frozen=True)
class _Line:
    text: str
    style: Style | None = None
    runs: Sequence[tuple[str, Style | None]] = ()
    """The parts of the text with their own styles."""


@dataclass(frozen=True)
class _Detail:
    """The amount of detail, reduced if the screen would be too long.

    The picture shows the phases, so the table of phases goes before the code.
    """

    actions: int
    code: int
    phases: int
    places: int
    notes: int
    gpus: int


_DETAILS = (
    _Detail(3, 2, _PHASES, _PLACES, 2, 4),
    _Detail(3, 2, 5, _PLACES, 1, 4),
    _Detail(3, 1, 4, _PLACES, 1, 2),
    _Detail(3, 1, 3, _TWO, 1, 2),
    _Detail(3, 1, 0, _TWO, 1, 2),
    _Detail(3, 0, 3, _TWO, 1, 1),
    _Detail(2, 0, 3, _TWO, 0, 1),
    _Detail(2, 0, 3, _TWO, 0, 0),
)


def render(report: Content, *, width: int, color: bool, more: str, ascii_only: bool = False) -> str:
    """Render the first screen. `more` lists the commands to show more.

    With `ascii_only`, block characters and typographic signs are ASCII. Names from the trace are unchanged.
    """
    width = min(width, _WIDEST)
    lines: list[_Line] = []
    for detail in _DETAILS:
        lines = list(_lines(report, width, more, detail))
        if len(lines) <= MOST_LINES:
            break
    text = "".join(f"{_shown(line, color)}\n" for line in lines)
    return to_ascii(text) if ascii_only else text


def _shown(line: _Line, color: bool) -> str:
    if color and line.runs:
        return "".join(style.render(text) if style is not None else text for text, style in line.runs)
    text = line.text.rstrip()
    return line.style.render(text) if color and line.style is not None and text else text


def _lines(report: Content, width: int, more: str, detail: _Detail) -> Iterator[_Line]:
    yield from _wrapped(" · ".join(report.head) or report.title, width, _BOLD, most=_TWO)
    yield from _wrapped(_recorded(report), width, _DIM, most=_TWO)
    yield _Line("")
    yield from _wrapped(report.lead, width, _BOLD, most=6)
    for text in _notes(report)[: detail.notes]:
        yield from _wrapped(text, width, _WARNING, most=_TWO)
    if report.cards:
        yield _Line("")
        wide = max(len(card.question) for card in report.cards)
        for card in report.cards:
            start = f"  {card.question:<{wide}}  "
            room = max(_READABLE, width - len(start) - (len(card.note) + 2 if card.note else 0))
            short = replace(card, answer=shorten(card.answer, room))
            yield _Line(shorten_end(f"{start}{short}", width))
    yield from _kinds(report, width)
    yield from _picture(report, width, detail.gpus)
    actions = report.actions[: detail.actions]
    if report.cards and not actions and NO_CHANGE not in report.lead:
        yield _Line("")
        yield _Line(NO_CHANGE)
    if actions:
        yield _Line("")
        yield _Line("What to do first", _TITLE)
        titles = max(len(action.title) for action in actions)
        for number, action in enumerate(actions, start=1):
            yield from _action(number, action, titles, width, detail.code)
    yield from _phases(report, width, detail.phases)
    yield from _places(report, width, detail.places)
    yield _Line("")
    yield from _wrapped(f"More: {more}", width, most=_TWO)


def _wrapped(
    text: str, width: int, style: Style | None = None, *, most: int, indent: str = "", hang: str = ""
) -> Iterator[_Line]:
    """A text as at most `most` lines. An ellipsis marks omitted text."""
    lines = folded(f"{indent}{text}", width, indent=hang or indent).splitlines()
    for number, line in enumerate(lines[:most], start=1):
        is_cut = number == most and len(lines) > most
        yield _Line(shorten_end(line, width, is_cut=is_cut), style)


def shorten_end(line: str, width: int, *, is_cut: bool = False) -> str:
    """Shorten a line to `width`. An ellipsis marks the cut, or further text if `is_cut`."""
    if len(line) <= width and not is_cut:
        return line
    return f"{line[: width - 1].rstrip()}…"


def _recorded(report: Content) -> str:
    recorded = report.facts.get("recorded", "")
    return f"recorded: {recorded}" if recorded else report.facts.get("part", "")


def _notes(report: Content) -> list[str]:
    """Problems of the job, and caveats on the sentence, in one sentence each. Missing ranks are in two lists."""
    damage = [f"Damage: {report.facts['damage']}"] if "damage" in report.facts else report.warnings
    notes = [*report.of_the_job, *(_first_sentence(text) for text in [*damage, *report.caveats])]
    return list(dict.fromkeys(notes))


def _first_sentence(text: str) -> str:
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def _kinds(report: Content, width: int) -> Iterator[_Line]:
    section = _section(report, "step_kinds")
    if section is None:
        return
    yield _Line("")
    rows = section.rows.sort("loop_pct", descending=True).head(_PLACES)
    for name, count, mean, share in rows.select("name", "step_count", "mean_ns", "loop_pct").iter_rows():
        text = f"{count:,} × {duration(mean)}, {whole_percent(share)} of the time: {name}"
        yield from _wrapped(f"  {text}", width, most=1)


def _picture(report: Content, width: int, gpus: int) -> Iterator[_Line]:
    """The step as strips with a legend, and the shares of all steps. Nothing if `gpus` is 0."""
    picture = report.screen.picture if report.screen is not None else None
    if picture is None or report.screen is None or not gpus:
        return
    lines, legend = strips(picture, width, gpus)
    if not lines:
        return
    devices = sum(row.is_device for row in picture.rows)
    only = f"; {gpus} of {devices} GPUs" if devices > gpus else ""
    yield _Line("")
    yield _Line(shorten_end(f"{picture.title}{only}", width), _TITLE)
    for number, strip in enumerate(lines):
        runs = _runs(strip, picture.hot) if number else ()
        yield _Line(f"{strip.head}{strip.text}", None if number else _DIM, runs)
    indent = " " * len(lines[0].head)
    # A sign stays with its words.
    entries = "  ".join(entry.replace(" ", "\N{NO-BREAK SPACE}") for entry in legend)
    for line in folded(f"{indent}{entries}", width, indent=indent).splitlines()[:_TWO]:
        yield _Line(shorten_end(line.replace("\N{NO-BREAK SPACE}", " "), width), _DIM)
    if shares := share_line(report.screen.parts):
        yield from _wrapped(f"In all: {shares}", width, most=_TWO, indent="  ")


def _runs(strip: Strip, hot: str) -> list[tuple[str, Style | None]]:
    """Characters of one state as one run, the state `hot` in the accent colour."""
    styles = [_HOT if hot and state == hot else _STATES.get(state) for state in strip.states]
    runs: list[tuple[str, Style | None]] = [(strip.head, None)]
    for style, group in groupby(zip(strip.text, styles, strict=True), key=lambda each: each[1]):
        runs.append(("".join(letter for letter, _ in group), style))
    text, style = runs[-1]
    return [*runs[:-1], (text.rstrip(), style)]


def _action(number: int, action: Action, titles: int, width: int, code: int) -> Iterator[_Line]:
    head = f"  {number}. "
    line = f"{head}{action.title:<{titles}}  "
    with_bar = f"{line}{_bar(action)}  {action.change}"
    if action.gains and len(with_bar) <= width:
        yield _Line(with_bar, _BOLD)
    elif len(line) + len(action.change) <= width:
        yield _Line(f"{line}{action.change}", _BOLD)
    else:
        yield from _wrapped(action.title, width, _BOLD, most=1, indent=head)
        yield from _wrapped(action.change, width, _BOLD, most=1, indent=" " * len(head))
    indent = " " * len(head)
    yield from _wrapped(_in_two_lines(action.what, width, indent), width, most=_TWO, indent=indent)
    if action.where and not _is_said(action):
        yield _Line(f"{indent}{shorten_place(action.where, width - len(indent))}", _DIM)
    if not action.code and code:
        yield from _wrapped(action.do, width, most=_TWO, indent=indent)
    for text in _code(action.code, width - len(indent) - _INDENT_OF_CODE, code):
        yield _Line(shorten_end(f"{indent}    {text}", width))


def _code(code: str, room: int, most: int) -> list[str]:
    """At most `most` lines of code. A statement over several lines is one line if it fits."""
    lines: list[str] = []
    for line in code.splitlines():
        is_body = bool(lines) and lines[-1].endswith(":") and line.strip().startswith("...")
        if lines and (is_body or lines[-1].rstrip().endswith(_OPEN)):
            gap = "" if lines[-1].endswith("(") else " "
            if len(joined := f"{lines[-1]}{gap}{line.strip()}") <= room:
                lines[-1] = joined
                continue
        lines.append(line)
    shown = lines[:most]
    if shown and len(shown) < len(lines) and shown[-1].endswith((*_OPEN, ":")):
        shown[-1] += " …"
    return shown


def _is_said(action: Action) -> bool:
    """Whether the statement has the name of the place: the line of code, or else the region or module."""
    parts = action.where.split(", ")
    line = next((part.split(" in ")[0] for part in reversed(parts) if ":" in part), None)
    return (line or action.where.removeprefix('the region "').removesuffix('"')) in action.what


def _in_two_lines(text: str, width: int, indent: str) -> str:
    """Shorten a text to two lines by cutting the middle, to keep the count and the time at the end."""
    for longest in range(_TWO * width, _READABLE, -_READABLE):
        short = shorten(text, longest)
        if len(folded(f"{indent}{short}", width, indent=indent).splitlines()) <= _TWO:
            return short
    return shorten(text, _READABLE)


def _bar(action: Action) -> str:
    """A bar of the step after the change relative to the present step."""
    filled = round(_BAR * action.after_ns / max(action.step_ns, 1))
    return "█" * filled + "░" * (_BAR - filled)


def _phases(report: Content, width: int, most: int) -> Iterator[_Line]:
    rows = [each for each in report.phase_times if each.share_pct >= 1]
    if not most or all(each.phase == "other" for each in rows):
        return
    waits = any(100 * each.waiting_ns >= each.time_ns for each in rows)
    title = _phases_title(report)
    if most < len(rows):  # the shares of the shown phases do not add up
        title = f"Largest {title[:1].lower()}{title[1:]}"
    head = [title, "CPU", "share", *(["waits for the GPU"] if waits else [])]
    shown = sorted(sorted(rows, key=lambda each: -each.time_ns)[:most], key=rows.index)
    cells = [
        [
            each.phase,
            duration(each.time_ns),
            f"{each.share_pct} %",
            *([duration(each.waiting_ns) if each.waiting_ns else "–"] if waits else []),
        ]
        for each in shown
    ]
    yield _Line("")
    yield from _table(head, cells, width)


def _phases_title(report: Content) -> str:
    """The title. It has the time between the marks of a step if different from the time between work."""
    whole = sum(each.time_ns for each in report.phase_times)
    step_ns = report.sentence.step_ns if report.sentence is not None else None
    if step_ns is None or abs(whole - step_ns) <= _APART * step_ns:
        return f"Phases of {report.whole}"
    return f"Phases of {duration(whole)} between marks"


def _places(report: Content, width: int, most: int) -> Iterator[_Line]:
    section = _section(report, "places")
    found = [] if section is None else list(section.rows.iter_rows(named=True))
    rows = [row for row in found if row["named_by"] in _KINDS_OF_PLACES and row["path_pct"] >= 1][:most]
    # Without named places, ops tell more: a small rest beside the phases is not the slowest place, and ops outside all
    # places are better told apart by op. Python without a name has no ops.
    if all(row["named_by"] == "without a name" for row in rows):
        is_python = bool(rows) and rows[0] == found[0] and rows[0].get("limit") in ("python", "unrecorded")
        if not is_python and (ops := list(_ops(report, width, most))):
            yield from ops
            return
    if not rows:
        return
    shared = shared_path([row["place"] for row in rows if row["named_by"] == "module"])
    cells = []
    for row in rows:
        name = module_name(row["place"].removeprefix(shared)) if row["named_by"] == "module" else row["name"]
        source = row["source"] or ""
        kind = f"{row['module_count']} modules" if (row["module_count"] or 1) > 1 else row["named_by"]
        share = whole_percent(row["path_pct"])
        cells.append([name, duration(row["path_ns"]), share, f"{kind}, {source}" if source else kind])
    yield _Line("")
    yield from _table(["Slowest places", f"of {report.whole}", "share", ""], cells, width)


def _ops(report: Content, width: int, most: int) -> Iterator[_Line]:
    """The slowest ops, for a trace without places in the code."""
    section = _section(report, "ops")
    if section is None or not report.cards:
        return
    device = "gpu" if "gpu_self_pct" in [field.column for field in section.fields] else "cpu"
    rows = section.rows.filter(section.rows[f"{device}_self_pct"] >= 1).head(most)
    if rows.is_empty():
        return
    slowest = next((each.answer for each in report.findings if each.question == "Which op is slowest?"), "")
    # The slowest op has the name of the card: PyTorch's op of all collectives stands for one of them.
    names = {ANY_COLLECTIVE: slowest if rows["name"][0] == ANY_COLLECTIVE else "collectives"}
    cells = [
        [op_name(names.get(op, op)), f"{calls:,}", duration(time_ns), whole_percent(share)]
        for op, calls, time_ns, share in rows.select(
            "name", "count", f"{device}_self_ns", f"{device}_self_pct"
        ).iter_rows()
    ]
    yield _Line("")
    yield from _table(["Slowest ops", "calls", f"{device.upper()} time", f"of all {device.upper()} time"], cells, width)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[_Line]:
    """A table: names left-aligned, numbers right-aligned. If too wide, names and the last text are shortened."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    last = len(head) - 1
    is_text = [True, *(head[number] == "" for number in range(1, len(head)))]
    room = width - _GAP * (last + 1)
    if is_text[last]:
        widths[0] = max(len(head[0]), min(widths[0], _LONGEST_NAME))
    for number in (last if is_text[last] else 0, 0):
        least = len(head[0]) if number == 0 else 0
        widths[number] = max(least, widths[number] - max(0, sum(widths) - room))
    for index, row in enumerate([head, *rows]):
        cells = [
            f"{_cut(cell, size, number):<{size}}" if is_text[number] else f"{cell:>{size}}"
            for number, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        yield _Line(" " * _GAP + (" " * _GAP).join(cells), _TITLE if not index else None)


def _cut(text: str, width: int, column: int) -> str:
    """Shorten a cell: names in the first column in the middle, places in the last column at the folders."""
    if column == 0 or width <= 1:
        return shorten(text, width) if column == 0 else text[:width]
    kind, comma, place = text.partition(", ")
    room = width - len(kind) - len(comma)
    return (
        f"{kind}{comma}{shorten_place(place, room)}"
        if room >= len(file_and_line(place))
        else shorten_place(text, width)
    )


def _section(report: Content, name: str) -> Section | None:
    return next((section for section in report.sections if section.name == name), None)
