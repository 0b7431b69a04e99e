"""The picture of a step as static SVG for a notebook: no script, no network, and the texts in the notebook's colour."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from hotline_analysis.charts.theme import PHASES
from hotline_analysis.reports.picture import CAUSE, Picture, Row
from hotline_analysis.reports.renderers.strips import state_words, ticks
from hotline_analysis.reports.screen import ON_DEVICE
from hotline_analysis.text.formats import duration
from hotline_analysis.text.html import render
from hotline_analysis.vocabulary import USE_CAUSES, idle_title

_LEFT, _ROOM = 64, 720  # pixels
_COLUMNS = 360
_HEIGHT, _GAP = 30, 6
_LETTER = 7.0  # pixels
_LABELS = 8
_LEAST = 0.004  # smaller shares of a column are invisible
_HOT = "#b3005e"
_WAIT = "#8a949e"
_WORK = {"computation": "#4b5a6b", "communication": "#d8c255", "memory": "#84909c"}


@dataclass(frozen=True)
class _Shape:
    """A part of a row: the outline, the paint, and the text shown on hovering."""

    outline: Markup
    paint: str
    title: str
    label: str = ""
    x: float = 0
    y: float = 0


def draw(picture: Picture, shares: str) -> Markup:
    """Draw the picture. `shares` is the sentence on all steps, which the text alternative includes."""
    mark = f"hotline-{zlib.crc32(repr(picture).encode(errors='replace')):x}"
    shapes: list[_Shape] = []
    heads: list[dict[str, object]] = []
    legend: dict[str, str] = {}
    for number, row in enumerate(picture.rows):
        top = number * (_HEIGHT + _GAP)
        heads.append({"name": row.name, "y": top, "middle": top + _HEIGHT / 2 + 4})
        drawn = _device(picture, row, top, mark) if row.is_device else _thread(picture, row, top, mark)
        for words, shape in drawn:
            shapes.append(shape)
            legend.setdefault(words, shape.paint)
    below = len(picture.rows) * (_HEIGHT + _GAP)
    entries, lines = _placed(legend, below + 30)
    return render(
        "step_picture.html",
        mark=mark,
        hot=_HOT,
        wait=_WAIT,
        left=_LEFT,
        room=_ROOM,
        row=_HEIGHT,
        width=_LEFT + _ROOM + 8,
        height=below + 26 + 20 * lines,
        label=f"{picture.title}. {shares}".strip(),
        heads=heads,
        shapes=shapes,
        axis=below,
        ticks=[{"x": _LEFT + share * _ROOM, "text": text} for share, text in ticks(picture.span_ns, _LABELS)],
        entries=entries,
    )


def _thread(picture: Picture, row: Row, top: float, mark: str) -> Iterator[tuple[str, _Shape]]:
    """The states of a thread from left to right: a column has the state of most of its time."""
    columns = picture.columns(row, _COLUMNS)
    most = [max(shares, key=lambda state: shares[state], default="") for shares in columns]
    at = 0
    for state, group in groupby(most):
        begin, at = at, at + len(list(group))
        if not state:
            continue
        words = picture.cause if state == CAUSE else state_words(state)
        wide = _pixels(at) - _pixels(begin)
        time = sum(shares.get(state, 0.0) for shares in columns[begin:at]) * picture.span_ns / _COLUMNS
        paint = PHASES.get(state, f"url(#{mark}-wait)")
        if picture.hot == state:
            paint = f"url(#{mark}-hot)"
        yield (
            words,
            _Shape(
                Markup(f"M{_pixels(begin):g} {top:g}h{wide:g}v{_HEIGHT}h{-wide:g}z"),
                paint,
                f"{words}: {duration(time)}",
                words if len(words) * _LETTER + 8 < wide else "",
                _pixels(begin) + 4,
                top + _HEIGHT / 2 + 4,
            ),
        )


def _device(picture: Picture, row: Row, top: float, mark: str) -> Iterator[tuple[str, _Shape]]:
    """The states of a device as one outline each: work below, idle time above."""
    columns = picture.columns(row, _COLUMNS)
    order = [*ON_DEVICE, picture.hot]
    states = sorted(row.shares, key=lambda state: (order.index(state) if state in order else len(order), state))
    base = [0.0] * _COLUMNS
    for state in states:
        outline = []
        for at, shares in enumerate(columns):
            share = min(shares.get(state, 0.0), 1 - base[at])
            if share > _LEAST:
                high = share * _HEIGHT
                y = top + _HEIGHT * (1 - base[at]) - high
                wide = _pixels(at + 1) - _pixels(at)
                outline.append(f"M{_pixels(at):g} {y:.4g}h{wide:g}v{high:.4g}h{-wide:g}z")
                base[at] += share
        if not outline:
            continue
        time = sum(shares.get(state, 0.0) for shares in columns) * picture.span_ns / _COLUMNS
        words = ON_DEVICE.get(state) or (idle_title(state) if state in USE_CAUSES else state)
        paint = _WORK.get(state, f"url(#{mark}-wait)")
        if state == picture.hot:
            paint = _HOT if state in _WORK else f"url(#{mark}-hot)"
        # One entry of the legend for all other causes of idle time.
        is_apart = picture.hot in row.shares and picture.hot not in _WORK
        others = "idle for another cause" if is_apart else "idle"
        entry = words if state in _WORK or state == picture.hot else others
        yield entry, _Shape(Markup("".join(outline)), paint, f"{words}: {duration(time)}")


def _pixels(column: int) -> float:
    return _LEFT + column * _ROOM / _COLUMNS


def _placed(legend: Mapping[str, str], top: float) -> tuple[Sequence[Mapping[str, object]], int]:
    """The entries of the legend in lines, and the number of lines."""
    entries, x, line = [], float(_LEFT), 0
    for words, paint in legend.items():
        wide = 26 + len(words) * _LETTER
        if x + wide > _LEFT + _ROOM and x > _LEFT:
            x, line = float(_LEFT), line + 1
        entries.append({"words": words, "paint": paint, "x": x, "y": top + 20 * line})
        x += wide
    return entries, line + 1
