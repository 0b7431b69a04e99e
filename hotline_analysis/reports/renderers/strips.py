"""The picture of a step as strips of characters: one for the CPU, and one for each GPU, on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hotline_analysis.reports.picture import CAUSE, Picture, Row
from hotline_analysis.reports.screen import ON_DEVICE, ON_THREAD, Part
from hotline_analysis.text.formats import readable_unit, shorten

_NARROWEST = 24  # fewer columns show nothing
_INDENT = "  "
_GAP = 2
_LONGEST_CAUSE = 40
_CAUSES = 2  # causes of idle time in a line
_REST = "idle: the rest"
_TICK = 12  # columns for each label of the axis
_HALF = 0.5
_HEIGHTS = "▁▂▃▄▅▆▇█"
_IDLE = "."
_LETTERS: Mapping[str, tuple[str, str]] = {
    "load_data": ("d", "load data"),
    "forward": ("F", "forward"),
    "loss": ("l", "loss"),
    "zero_grad": ("z", "zero grad"),
    "backward": ("B", "backward"),
    "clipping": ("G", "gradient clipping"),
    "optimizer": ("O", "optimizer"),
    "sync": ("w", ON_THREAD["sync"]),
    "other_ranks": ("r", ON_THREAD["other_ranks"]),
    "other_thread": ("t", ON_THREAD["other_thread"]),
    "profiler": ("p", ON_THREAD["profiler"]),
    CAUSE: ("x", ""),
    "other": (".", "other"),
}
"""Letter and words for each state of a thread."""
_WORK = {"communication": ("c", "only communicates"), "memory": ("m", "only copies")}
_UNOBSERVED = ("?", "not observed")
_ASCII = str.maketrans(f"{_HEIGHTS}░→·…–−×µ“”±", '1234567#->|~--xu""~')


@dataclass(frozen=True)
class Strip:
    """A line of the picture, with the state of each character for colours."""

    head: str
    text: str
    states: Sequence[str]


def to_ascii(text: str) -> str:
    """The text without block characters and typographic signs, at the same width: `1` to `7` and `#` for heights."""
    return text.translate(_ASCII)


def strips(picture: Picture, width: int, gpus: int) -> tuple[list[Strip], list[str]]:
    """The lines of the picture, at most `gpus` of them for GPUs, and the entries of the legend.

    No lines if the width is too small.
    """
    devices = [row for row in picture.rows if row.is_device][:gpus]
    rows = [row for row in picture.rows if not row.is_device or row in devices]
    wide = max(len(row.name) for row in rows) + len(_INDENT) + _GAP
    room = width - wide
    if room < _NARROWEST:
        return [], []
    lines = [Strip(" " * wide, _axis(picture.span_ns, room), ())]
    entries: dict[str, list[str]] = {}
    for row in rows:
        states = _states(picture, row, room)
        letters = [letter for letter, _, _ in states]
        for letter, words, _ in states:
            if words and words not in entries.setdefault(letter, []):
                entries[letter].append(words)
        lines.append(Strip(f"{_INDENT}{row.name}".ljust(wide), "".join(letters), [state for _, _, state in states]))
    legend = [f"{letter} {', '.join(words)}" for letter, words in entries.items()]
    if devices:
        legend.append(f"{_HEIGHTS[0]}{_HEIGHTS[3]}{_HEIGHTS[-1]} busy")
    return lines, legend


def _states(picture: Picture, row: Row, room: int) -> list[tuple[str, str, str]]:
    """The letter of each column, its words for the legend, and the state of most of the column's time."""
    found = []
    for shares in picture.columns(row, room):
        if row.is_device:
            found.append(_of_device(shares))
            continue
        most = max(shares, key=lambda state: shares[state], default="")
        letter, words = _LETTERS.get(most, (" ", ""))
        found.append((letter, shorten(picture.cause, _LONGEST_CAUSE) if most == CAUSE else words, most))
    return found


def _of_device(shares: Mapping[str, float]) -> tuple[str, str, str]:
    busy = sum(shares.get(state, 0.0) for state in ON_DEVICE)
    state = max(shares, key=lambda each: shares[each], default="")
    if not shares:
        return " ", "", ""
    if shares.get("unobserved", 0.0) >= _HALF:
        return *_UNOBSERVED, "unobserved"
    for work, (letter, words) in _WORK.items():
        if shares.get(work, 0.0) >= _HALF:
            return letter, words, work
    height = int(busy * len(_HEIGHTS) + _HALF)
    if not height:
        return _IDLE, "idle", state
    return _HEIGHTS[min(height, len(_HEIGHTS)) - 1], "", "computation" if state in ON_DEVICE else state


def state_words(state: str) -> str:
    """The words for a state of a thread: `forward`, `waits for the GPU`."""
    return _LETTERS.get(state, ("", state))[1]


def ticks(span_ns: int, most: float) -> list[tuple[float, str]]:
    """Round times from 0, about `most` of them: the position from 0 to 1, and the label with the unit."""
    raw = span_ns / most
    size = 1
    while size * 10 <= raw:
        size *= 10
    size = next((each * size for each in (1, 2, 5) if each * size >= raw), 10 * size)
    unit, name = readable_unit(span_ns)
    digits = next((places for places in range(3) if size * 10**places % unit == 0), 3)
    return [(time / span_ns, f"{time / unit:.{digits}f} {name}") for time in range(0, span_ns, size)]


def _axis(span_ns: int, room: int) -> str:
    """Labels of round times, each starting at its time. Only the last label has the unit."""
    labels = [(int(share * room), text) for share, text in ticks(span_ns, room / _TICK)]
    fitting = [(at, text) for at, text in labels if at + len(text) <= room]
    line = ""
    for at, text in fitting:
        line = f"{line:<{at}}{text if (at, text) == fitting[-1] else text.partition(' ')[0]}"
    return line


def share_line(parts: Sequence[Part]) -> str:
    """The shares of the devices' states: `GPU computes 44 %, idle 56 %: CPU runs python 39 %, CPU loads data 17 %`.

    Empty for shares of phases, which have a table.
    """
    if not any(part.words in ON_DEVICE.values() or part.words.startswith("idle: ") for part in parts):
        return ""
    idle = [part for part in parts if part.words.startswith("idle: ")]
    said: list[str] = []
    for part in parts:
        if part not in idle:
            words = part.words if not said else part.words.removeprefix("GPU: ").removeprefix("GPU ")
            said.append(f"{_UNOBSERVED[1] if part.state == 'unobserved' else words} {part.share} %")
    whole = sum(part.share for part in idle)
    if whole:
        said.append(f"{'idle' if said else 'GPU idle'} {whole} %")
    largest = sorted(idle, key=lambda part: (part.words == _REST, -part.share))
    shown, rest = largest[:_CAUSES], sum(part.share for part in largest[_CAUSES:])
    named = [(part.words.removeprefix("idle: "), part.share) for part in shown]
    causes = ", ".join(f"{words} {share} %" for words, share in [*named, *([("the rest", rest)] if rest else [])])
    return f"{', '.join(said)}{f': {causes}' if causes else ''}"
