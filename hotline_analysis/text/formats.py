"""Numbers and names formatted for people."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import takewhile

TIME_UNITS = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s"))
"""Units of time: nanoseconds per unit, and name. Tables, charts and pages choose from these."""
# Powers of two, as in nvidia-smi and in PyTorch's messages on memory ("Tried to allocate 2.00 GiB"). Only bandwidths
# are decimal, GB/s, as vendors give them.
SIZE_UNITS = ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"), (2**40, "TiB"))
# Characters that could hide or forge the content of a line: they control the terminal, change the direction of text,
# end a line, or are invisible. Images cannot contain U+FFFE and U+FFFF: the renderer would abort.
UNSEEN = (
    "\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U000e0000-\U000e007f"
)
UNSAFE = re.compile(f"[\x00-\x1f{UNSEEN}]")
"""Characters escaped by `safe`."""

_FOLDERS = re.compile(r"^.*[/\\]", re.DOTALL)
_NUMBERED = re.compile(r"\d+(\.\d+)*")


def readable_unit(largest: int | float, units: Sequence[tuple[int, str]] = TIME_UNITS) -> tuple[int, str]:
    """The largest unit in which `largest` is at least 1, or else the smallest unit."""
    return next((unit for unit in reversed(units) if abs(largest) >= unit[0]), units[0])


def duration(ns: int | float | None) -> str:
    """A duration with three digits and a unit: `12.3 ms`. A dash for NULL.

    `timeline.js` formats durations the same way, with the same units. Both round halves up.
    """
    if ns is None:
        return "–"
    amount = abs(ns)
    # The rounded amount determines the unit: 1.00 ms, not 1,000 µs.
    fitting = (each for each in reversed(TIME_UNITS) if _rounded(amount, each[0], 3) >= 1000)
    size, unit = next(fitting, TIME_UNITS[0])
    digits = 0 if size == 1 else next((digits for digits in (2, 1) if _rounded(amount, size, digits) < 1000), 0)
    return f"{'−' if ns < 0 else ''}{_rounded(amount, size, digits) / 10**digits:,.{digits}f} {unit}"


def _rounded(amount: int | float, size: int, digits: int) -> int:
    """An amount in units of `size`, rounded to `digits` decimals, as an integer multiple of the last digit."""
    return int(amount * 10**digits / size + 0.5)


def delta(ns: int | float | None) -> str:
    """A difference of durations with its sign: `+12.3 ms`, `−4 ns`."""
    if not ns:
        return duration(ns)
    return f"{'+' if ns > 0 else '−'}{duration(abs(ns))}"


def signed(value: int | float) -> str:
    """A whole number with the signs of `delta`: `+1,234`, `−66`."""
    return f"{value:+,.0f}".replace("-", "−")


def percent(value: float | None) -> str:
    """A share with a decimal place: `12.3 %`. A dash for NULL."""
    return "–" if value is None else f"{value:.1f} %"


def whole_percent(value: float | None) -> str:
    """A share without decimals, for first screens: `12 %`; `under 1 %` for the rest. A dash for NULL."""
    if value is None:
        return "–"
    return "under 1 %" if 0 < value < 0.5 else f"{value:.0f} %"


def ordinal(number: int) -> str:
    """A position: `4th`, `22nd`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def times(count: int) -> str:
    """How often: `once`, `1,234 times`."""
    return "once" if count == 1 else f"{count:,} times"


def size(count: int | float) -> str:
    """Bytes with three digits and a unit: `6.17 GiB`."""
    scale, unit = readable_unit(count, SIZE_UNITS)
    amount = count / scale
    return f"{amount:.0f} {unit}" if scale == 1 or abs(amount) >= 99.95 else f"{amount:.3g} {unit}"


def shares(parts: Sequence[int]) -> list[float]:
    """Shares of a sum in percent with a decimal place, rounded to add up to exactly 100.0.

    The largest remainders are rounded up (Hamilton's method). All shares are zero if all parts are zero.
    """
    return [value / 10 for value in _apportioned(parts, 1000)]


def whole_shares(parts: Sequence[int]) -> list[int]:
    """The same in whole per cents, which add up to exactly 100."""
    return _apportioned(parts, 100)


def _apportioned(parts: Sequence[int], whole: int) -> list[int]:
    total = sum(parts)
    if total == 0:
        return [0 for _ in parts]
    units = [whole * part // total for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda i: (-(whole * parts[i] % total), i))
    for i in by_remainder[: whole - sum(units)]:
        units[i] += 1
    return units


def safe(text: str) -> str:
    """A name from a trace on a single line, with characters escaped that could hide or forge text."""
    return UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def module_name(path: str, kind: str | None = None) -> str:
    """A module's path. A path of numbers, as in a plain `Sequential`, becomes Python indexing, with the type if known.

    `2.0` becomes `[2][0] Linear`.
    """
    if not _NUMBERED.fullmatch(path):
        return path
    return f"[{path.replace('.', '][')}]" + (f" {kind}" if kind else "")


def shared_path(paths: Sequence[str]) -> str:
    """The common prefix of modules' paths, including the last dot: `model.layers.`.

    `paths` may also contain the enclosing modules. Empty without a common prefix, or with fewer than two paths to
    compare.
    """
    inside = [path.split(".")[:-1] for path in paths if "." in path]
    levels = zip(*inside, strict=False) if len(inside) > 1 else ()
    shared = "".join(f"{level[0]}." for level in takewhile(lambda level: len(set(level)) == 1, levels))
    return shared if all(shared.startswith(f"{path}.") for path in paths if "." not in path) else ""


def shorten(text: str, width: int) -> str:
    """Cut the middle out of a text wider than `width`. The ends of a path are the most informative parts."""
    if len(text) <= width:
        return text
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def folded(text: str, width: int | None, *, indent: str = "") -> str:
    """Wrap a sentence to lines of at most `width`, all but the first indented; a single line without `width`.

    Numbers stay with their units, and words are not split.
    """
    if width is None:
        return text
    held = re.sub(r"(?<=\d) (?=(?:%|[nµm]?s|[KMGT]iB)(?!\w))", "\N{NO-BREAK SPACE}", text)
    lines = textwrap.fill(held, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\N{NO-BREAK SPACE}", " ")


def shorten_place(text: str, width: int) -> str:
    """Shorten a place in the code, such as `folder/file.py:12 in function`: first the folders, then the function.

    At the smallest width only the end of `file.py:12` remains.
    """
    if len(text) <= width:
        return text
    name, bracket, path = text.removesuffix(")").rpartition(" (")
    if text.endswith(")") and (room := width - len(name) - 3) >= len(file_and_line(path)):
        return f"{name}{bracket}{shorten_place(path, room)})"
    file = file_and_line(text)
    begin = (text.rpartition(" in ")[0] or text).rindex(file)
    folders = [at for at in range(begin) if text[at] in "/\\" and len(text) - at < width]
    if folders:
        return f"…{text[folders[0] :]}"
    if len(file) > width:
        return f"…{file[len(file) - width + 1 :]}"
    rest = text[begin:]
    return rest if len(rest) <= width else file if len(file) == width else f"{rest[: width - 1]}…"


def file_and_line(text: str) -> str:
    """The part of a place in the code that `shorten_place` keeps longest: `file.py:12`."""
    return _FOLDERS.sub("", text.rpartition(" in ")[0] or text)


def one_of(words: Sequence[str]) -> str:
    """Alternatives: `op, module or step`."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def listed(words: Sequence[str]) -> str:
    """An enumeration: `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def runs(numbers: Sequence[int], most: int = 8) -> str:
    """Ascending numbers with ranges: `0 to 7, 12`. The word "none" for an empty list."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    said = [str(first) if first == last else f"{first} to {last}" for first, last in spans]
    return ", ".join([*said[:most], "…"] if len(said) > most else said) or "none"


def lost_events(count: int, truncated: bool) -> str:
    """How many events of a damaged file are missing; unknown for a file that is cut off."""
    if truncated:
        return "how many followed is unknown"
    return f"about {count:,} were lost" if count else "none was lost"


def some_of(sentences: Sequence[str], rest: str, most: int = 10) -> list[str]:
    """The first sentences, and the number of further sentences. `rest` is the noun after the number."""
    more = len(sentences) - most
    return [*sentences[:most], f"{more:,} more {rest}"] if more > 1 else list(sentences)
