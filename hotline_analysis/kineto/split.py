"""Text of a trace file → texts of its events, without parsing them one by one.

The separators between events are found by a regular expression in native code. That is a guess: `},{` may also stand
inside an event. The guess is checked for every event, again in native code, since a piece that starts at an event and
ends inside it is never valid JSON. Only around pieces that fail the check is the text parsed step by step, which finds
the true borders, the end of the array, and damage. Behind damage, reading goes on at the next object that has a `ph`.
"""

from __future__ import annotations

import bisect
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa

from hotline_analysis.kineto import mend

# `\s` would match Unicode spaces, which JSON forbids, and is ten times slower.
_SEPARATOR = r"\}[ \t\r\n]*,[ \t\r\n]*\{"
_SEPARATOR_PATTERN = re.compile(_SEPARATOR)
_SPACE = " \t\r\n\ufeff"
_NOT_SPACE = re.compile(r"[^ \t\r\n\ufeff]")
_EVENTS_KEY = re.compile(r'"traceEvents"\s*:\s*\[')
_EVENT_LIKE = re.compile(r'\[\s*(?=\{\s*"(?:ph|name|cat|ts|pid|tid|dur|args)"\s*:)')
_MEMBER = re.compile(r'\{\s*"(?:ph|name|cat|ts|pid|tid|dur|args)"\s*:')
_OBJECT = re.compile(r'\{[ \t\r\n]*"')
_ARRAY_END = re.compile(r'\}\s*(?=\]\s*(?:,\s*"(?:[^"\\]|\\.)*"\s*:|\}?\s*\Z))')
_BEHIND_EVENTS = re.compile(r'\][ \t\r\n]*(?:,[ \t\r\n]*"|\}?[ \t\r\n]*\Z)')
_DELIMITERS = frozenset(",}] \t\r\n")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_LONE_SURROGATE = re.compile(
    r"(?<!\\)((?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_DAMAGED = "some events are damaged and were skipped"
_TOO_LONG = "a single event is longer than 16 MiB"
_LIMIT = 64 << 20  # longest value beside the events that is waited for
# Longest event that is waited for. To check a text, the database takes up to 16 bytes for each of its characters.
_LONGEST_EVENT = 16 << 20

# An unfinished text this long, with whole events inside, is a damaged event that has swallowed those behind it.
_SUSPICIOUS = 1 << 20
# How much text may be parsed again behind damage: so much, and once what is read. Then more is skipped, so that a file
# made of nothing but damage takes time in proportion to its size.
_PATIENCE = 1 << 26
_SHORT = 8 << 20  # a text this short is probably the last one
_MENDED = 1 << 16  # the longest event that is repaired
_TOO_DEEP = 1 << 16  # how much is skipped of what nests too deeply to be parsed
_MAX_DIGITS = 4000  # Python refuses to convert longer integers

_decoder = json.JSONDecoder(strict=False, parse_int=lambda text: int(text) if len(text) < _MAX_DIGITS else float(text))


@dataclass
class Damage:
    """What could not be read. `notes` are sentences for the user; `repairs` counts what was read although wrong."""

    lost_events: int = 0
    lost_bytes: int = 0
    truncated: bool = False
    notes: list[str] = field(default_factory=list)
    repairs: Counter[str] = field(default_factory=Counter)

    def note(self, text: str) -> None:
        """Add a sentence, once, and not without end."""
        if text not in self.notes and len(self.notes) < 20:
            self.notes.append(text)

    def lose(self, text: str, events: int) -> None:
        """Count text that belongs to no readable event."""
        self.lost_bytes += len(text.encode("utf-8", "replace"))
        self.lost_events += events


@dataclass(frozen=True)
class Batch:
    """Texts of events, each a JSON object, with their event ids and their numbers of top-level fields."""

    texts: pl.Series
    ids: pl.Series
    field_counts: pl.Series
    has_collectives: bool


class _Parsed(NamedTuple):
    """A JSON value and its end. For a damaged one the end is None, and `failed` and `unfinished` say more."""

    value: Any
    end: int | None
    failed: int
    unfinished: bool


class EventSplitter:
    """Splits the text of one trace file. Iterate once; `metadata` and `damage` are complete afterwards.

    `checker` is a connection to any database, and is closed at the end.
    """

    def __init__(self, chunks: Iterable[str], checker: duckdb.DuckDBPyConnection) -> None:
        self.metadata: dict[str, Any] = {}
        self.damage = Damage()
        self.found_events = False
        self.has_trace_key = False
        self.beginning = ""
        self._chunks = iter(chunks)
        self._text = ""
        self._final = False
        self._at_end = False
        self._next_id = 0
        self._in_long_event = False
        self._patience = _PATIENCE
        self._checker = checker

    def __iter__(self) -> Iterator[Batch]:
        """Yield the events in file order."""
        try:
            yield from self._document()
        finally:
            self._checker.close()

    # --- the document around the events -------------------------------------------------------------------------

    def _more(self) -> bool:
        """Append the next chunk to the text; False at the end of the file."""
        chunk = next(self._chunks, None)
        if chunk is None:
            self._final = True
            return False
        self._text += chunk
        self._patience += len(chunk)
        return True

    def _skip_space(self, position: int) -> int:
        """Position of the next character that is no white space, or of the end of the file."""
        while True:
            match = _NOT_SPACE.search(self._text, position)
            if match:
                return match.start()
            position = len(self._text)
            if not self._more():
                return position

    def _document(self) -> Iterator[Batch]:
        position = self._skip_space(0)
        self.beginning = self._text[position : position + 16]
        if position == len(self._text):
            return
        if self._text[position] == "[":
            self._text = self._text[position + 1 :]
            self.found_events = self.has_trace_key = True
            yield from self._events()
            while not self._at_padding() and self._search(0):
                yield from self._events()
            return
        if self._text[position] != "{":
            return
        self._text = self._text[position + 1 :]
        while self._members():
            yield from self._events()

    def _members(self) -> bool:
        """Read the top-level members up to the next array of events; False when there is none."""
        while True:
            position = self._skip_space(0)
            if position < len(self._text) and self._text[position] == ",":
                position = self._skip_space(position + 1)
                if position < len(self._text) and self._text[position] == "{":
                    return self._enter(position)  # the events go on: the array's end was a damaged event's
            if position == len(self._text):
                if not self.damage.truncated:
                    self._cut("the file ends before its outermost brace is closed")
                return False
            if self._text[position] == "}":
                self._text = self._text[position + 1 :]
                return not (self.found_events and self._at_padding()) and self._search(0)
            key, position = self._value(position)
            if not isinstance(key, str):
                return self._search(0)
            position = self._skip_space(position)
            if self._text[position : position + 1] != ":":
                return self._search(0)
            position = self._skip_space(position + 1)
            self.has_trace_key |= key == "traceEvents"
            if key == "traceEvents" and self._text[position : position + 1] == "[":
                return self._enter(position + 1)
            start = position
            value, position = self._value(position)
            if position < 0:
                return self._search(start)
            if "\\" in self._text[start:position]:
                value = _decoder.decode(_repair(self._text[start:position]))
            self.metadata[key.encode("utf-8", "replace").decode()] = value
            self._text = self._text[position:]

    def _value(self, position: int) -> tuple[Any, int]:
        """Parse one JSON value, reading on while it is incomplete; the position is -1 when that fails."""
        while True:
            try:
                value, end = _decoder.raw_decode(self._text, position)
                # What follows tells whether a number is complete; other values end with a character of their own.
                if self._text[end : end + 1] in _DELIMITERS or isinstance(value, str | list | dict) or not self._more():
                    return value, end
            except RecursionError:
                return None, -1
            except ValueError:
                if len(self._text) - position > _LIMIT or not self._more():
                    return None, -1

    def _at_padding(self) -> bool:
        """Whether nothing but white space and zeros is left in the file."""
        while not self._text.strip(_SPACE + "\0"):
            self._text = ""
            if not self._more():
                return True
        return False

    def _enter(self, position: int) -> bool:
        self._text = self._text[position:]
        self.found_events = self.has_trace_key = True
        return True

    def _search(self, position: int) -> bool:
        """The top level is damaged: look for the events wherever they are.

        Where there have been some, single ones do: what looked like the end of their array may have been damage.
        """
        self._text = self._text[position:]
        skipped = lost = 0
        while True:
            match = _EVENTS_KEY.search(self._text) or _EVENT_LIKE.search(self._text)
            found = match.end() if match else None
            keep = max(0, len(self._text) - 1024)
            if self.found_events and self._patience > 0:
                self._patience -= 16 * len(self._text)  # they are split anew, which costs so much
                event, is_whole = self._next_event(self._text, 0, more=not self._final)
                if event is not None and is_whole:
                    found = event if found is None else min(found, event)
                elif event is not None and len(self._text) - event < _LONGEST_EVENT:
                    keep = event
            if found is not None:
                lost += self._text.count('"ph"', 0, found)
                self.damage.note("the text around the events is damaged")
                self.damage.lost_bytes += skipped + found
                self.damage.lost_events += lost
                return self._enter(found)
            lost += self._text.count('"ph"', 0, keep)
            skipped += keep
            self._text = self._text[keep:]
            if not self._more():
                if self.found_events:
                    self.damage.note("the text after the events is damaged")
                    self.damage.lost_bytes += skipped + len(self._text)
                    self.damage.lost_events += lost + self._text.count('"ph"')
                return False

    def _cut(self, why: str) -> None:
        self.damage.truncated = True
        self.damage.note(why)

    # --- the events ---------------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Batch]:
        """Read events up to the end of their array and leave the text after it in `_text`."""
        self.found_events = True
        self._at_end = False
        while not self._at_end:
            start = self._skip_space(0)
            self._text = self._text[start:]
            if not self._text:
                self._cut("the file ends inside the events")
                return
            if self._text[0] == "]":
                self._text = self._text[1:]
                return
            if self._text[0] == ",":
                self._text = self._text[1:]
                continue
            if len(self._text) < _SHORT and not self._final:
                self._more()
            end = -1 if self._final else self._last_separator()
            if end < 0 and not self._final:
                if len(self._text) > _LONGEST_EVENT:
                    # It keeps one number, however many pieces it comes in.
                    first = int(not self._in_long_event)
                    self._in_long_event = True
                    self._next_id += first
                    self.damage.lose(self._text, first)
                    self.damage.note(_TOO_LONG)
                    self._text = ""
                self._more()
                continue
            self._in_long_event = False
            if batch := self._split(end):
                yield batch
            if not self._at_end:
                self._more()

    def _last_separator(self) -> int:
        """Position of the `}` of the last `},{` in the text, or -1."""
        window = 1 << 16
        while True:
            start = max(0, len(self._text) - window)
            last = -1
            for match in _SEPARATOR_PATTERN.finditer(self._text, start):
                last = match.start()
            if last >= 0 or not start:
                return last
            window *= 16

    def _split(self, end: int) -> Batch | None:
        """Take the events out of the text, which starts at one: up to its last separator at `end`, or all if -1.

        Sets `_text` to what is to be read next: the next event or the comma before it, or an event that needs more
        text, or the text behind the array's end.
        """
        text, is_last = self._text, end < 0
        # Two rows, since a column of one text is a scalar, which is copied at every step. Both the second row and the
        # piece behind the last separator are no events.
        split = pl.col("text").str.split(_SEPARATOR, literal=False).list.explode()
        pieces = pl.DataFrame({"text": [text, " "]}).select(split).head(-1 if is_last else -2)
        number = pl.int_range(pl.len())
        opening = pl.when(number > 0).then(pl.lit("{")).otherwise(pl.lit(""))
        closing = pl.when(pl.lit(not is_last) | (number < pl.len() - 1)).then(pl.lit("}")).otherwise(pl.lit(""))
        texts: pl.Series = pieces.select(pl.concat_str([opening, pl.col("text"), closing])).to_series()
        texts, counts = self._mend(texts, self._count_fields(texts))
        wrong = counts.is_null().arg_true().to_list()
        if text[0] != "{" and wrong[:1] != [0]:
            wrong.insert(0, 0)
        if wrong:
            self._text = "" if is_last else text[end + 1 :]
            return self._careful(text if is_last else text[: end + 1], self._text, texts, wrong)
        if is_last:
            self._text = ""
            self._cut("the file ends inside the events")
            self._at_end = True
        else:
            # The next event, without the comma before it, as dropping that later would copy the whole next text.
            separator = _SEPARATOR_PATTERN.match(text, end)
            assert separator
            self._text = text[separator.end() - 1 :]
        return self._batch([texts], counts)

    def _mend(self, texts: pl.Series, counts: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Repair the events that their writer spelled wrong; the counts of their fields follow."""
        doubtful = set((counts.is_null() | texts.str.contains(mend.WORD_LIKE)).arg_true())
        # Backslashes are rare, and found much faster than the pattern.
        escaped = texts.str.contains("\\", literal=True).arg_true()
        doubtful.update(escaped.filter(texts.gather(escaped).str.contains(mend.PATH_LIKE)))
        places, better = [], []
        for place in sorted(doubtful):
            if found := mend.mend(texts[place]):
                places.append(place)
                better.append(found.text)
                self.damage.repairs += found.repairs
        if not places:
            return texts, counts
        mended = pl.Series(better, dtype=pl.String)
        return texts.scatter(places, mended), counts.scatter(places, self._count_fields(mended))

    def _count_fields(self, texts: pl.Series) -> pl.Series:
        """The number of fields of each text; NULL for a text that is not valid JSON, or too long."""
        is_long = texts.str.len_bytes() > _LONGEST_EVENT
        if is_long.any():
            texts = pl.select(pl.when(is_long).then(pl.lit("")).otherwise(texts)).to_series()
        newest = pl.CompatLevel.newest()  # keeps the engines from copying the texts
        self._checker.register("pieces", pa.table({"text": texts.to_arrow(compat_level=newest)}))
        counts: pl.Series = self._checker.sql('select try(len(json_keys("text"))) as fields from pieces').pl()["fields"]
        self._checker.unregister("pieces")
        return counts

    def _batch(self, parts: list[pl.Series | list[str] | int], field_counts: pl.Series | None = None) -> Batch | None:
        """Number the events; an integer in `parts` stands for so many lost ones, which keep their numbers."""
        texts, ids = [], []
        for part in parts:
            count = part if isinstance(part, int) else len(part)
            if not isinstance(part, int):
                texts.append(pl.Series(part))
                ids.append(pl.int_range(self._next_id, self._next_id + count, eager=True))
            self._next_id += count
        if not texts:
            return None
        events = pl.concat(texts)
        counts = self._count_fields(events) if field_counts is None else field_counts
        # Found in the texts at once, since a look at the args of every event would cost as much as decoding them.
        return Batch(events, pl.concat(ids), counts, events.str.contains('"Collective name"', literal=True).any())

    def _careful(self, body: str, rest: str, texts: pl.Series, wrong: list[int]) -> Batch | None:
        """Split a text in which some pieces are no events: parse from each wrong piece on until a border fits again.

        `body` starts at an event; `rest` is the text from the comma behind it, empty if the file has no more text.
        """
        starts = [0, *(match.end() - 1 for match in _SEPARATOR_PATTERN.finditer(body))]
        parts: list[pl.Series | list[str] | int] = []
        at = 0
        while at < len(body):
            piece = bisect.bisect_left(starts, at)
            if piece < len(starts) and starts[piece] == at:
                next_wrong = bisect.bisect_left(wrong, piece)
                stop = wrong[next_wrong] if next_wrong < len(wrong) else len(starts)
                if stop > piece:
                    parts.append(texts[piece:stop])
                    at = starts[stop] if stop < len(starts) else len(body)
                    continue
            parsed = _parse(body, at, _SUSPICIOUS)
            # What looks like a writer's error may be a right event whose end is still to come.
            may_go_on = parsed.unfinished and rest != "" and len(body) - at < _MENDED
            mended = self._mend_at(body, at, starts) if parsed.end is None and not may_go_on else None
            swallowed = self._swallowed(body, at, parsed.failed) if parsed.end is None and mended is None else None
            if parsed.unfinished and swallowed is None and mended is None and len(body) - at > _SUSPICIOUS:
                parsed = _parse(body, at)
            end = parsed.end
            if mended is not None:
                self.damage.repairs += mended.repairs
                parts.append([_repair(mended.text)])
                end = mended.end
            elif end is None or (body[at] != "{" and not _ends_element(body, end)):
                longest = _LONGEST_EVENT if swallowed is None else _SUSPICIOUS
                if parsed.unfinished and rest and len(body) - at < longest:
                    self._text = body[at:] + rest
                    return self._batch(parts)
                end = swallowed or self._after_damage(body, at, parsed.failed, more=bool(rest))
                lost = body[at:end]
                count = max(lost.count('"ph"'), int(lost.startswith("{")))
                self.damage.lose(lost, count)
                if not rest and end == len(body):
                    break
                self.damage.note(_DAMAGED)
                parts.append(count)
            elif end - at > _LONGEST_EVENT // 4 and len(body[at:end].encode("utf-8", "replace")) > _LONGEST_EVENT:
                self.damage.lose(body[at:end], 1)
                self.damage.note(_TOO_LONG)
                parts.append(1)
            elif body[at] != "{":
                self.damage.lose(body[at:end], 1)
                self.damage.note("the events contain something that is no event")
                parts.append(1)
            else:
                text = body[at:end]
                if found := mend.mend(text):
                    self.damage.repairs += found.repairs
                    text = found.text
                if parts and isinstance(parts[-1], list):
                    parts[-1].append(_repair(text))
                else:
                    parts.append([_repair(text)])
            at = _skip(body, end)
            if body[at : at + 1] == "]":
                # What cannot follow the end of all events is behind one that has an end too many.
                event, _ = (None, False) if _BEHIND_EVENTS.match(body, at) else self._next_event(body, at, more=False)
                if event is None:
                    self._text = body[at + 1 :] + rest
                    self._at_end = True
                    return self._batch(parts)
                self.damage.lose(body[at:event], body.count('"ph"', at, event))
                self.damage.note(_DAMAGED)
                at = event
            while body[at : at + 1] == ",":
                at = _skip(body, at + 1)
        if not rest:
            self._cut("the file ends inside the events")
            self._at_end = True
        return self._batch(parts)

    def _mend_at(self, body: str, at: int, starts: list[int]) -> mend.Mended | None:
        """Repair the event at a place, which is alone no JSON; `starts` are where events seem to start."""
        follows = bisect.bisect_right(starts, at)
        if follows < len(starts) and _MEMBER.match(body, starts[follows]):
            piece = body[at : body.rindex("}", at, starts[follows]) + 1]
            if found := mend.mend_at(piece, may_lack_end=True):
                return found._replace(end=at + len(piece))
        found = mend.mend_at(body[at : at + _MENDED], may_lack_end=False)
        return found._replace(end=at + found.end) if found else None

    def _swallowed(self, body: str, start: int, failed: int) -> int | None:
        """The first whole event inside a damaged one, which lacks its end and has taken those behind it for its own."""
        self._patience -= failed - start
        position = start + 1
        while self._patience > 0 and (match := _OBJECT.search(body, position, failed)):
            parsed = _parse(body, match.start())
            if parsed.end is not None and "ph" in parsed.value:
                return match.start()
            self._patience -= (parsed.end or parsed.failed) - match.start()
            position = match.start() + 1
        return None

    def _after_damage(self, body: str, start: int, failed: int, *, more: bool) -> int:
        """Where to go on behind a damaged event: at the next event, else the array's end, else the end of the text."""
        event, _ = self._next_event(body, max(start + 1, failed), more=more)
        if event is not None:
            return event
        array_end = _ARRAY_END.search(body, start)
        return array_end.end() if array_end else len(body)

    def _next_event(self, text: str, position: int, *, more: bool) -> tuple[int | None, bool]:
        """Where the next object with a `ph` starts, and whether it is whole: with more text to come, it need not be."""
        while match := _OBJECT.search(text, position):
            parsed = _parse(text, match.start())
            if parsed.end is not None and "ph" in parsed.value:
                return match.start(), True
            if parsed.unfinished and more:
                return match.start(), False
            position = max(match.start() + 1, parsed.failed)
            if parsed.end is not None:  # look into it, as long as that does not take too long
                self._patience -= parsed.end - match.start()
                position = position if self._patience > 0 else parsed.end
        return None, False


def _skip(text: str, position: int) -> int:
    match = _NOT_SPACE.search(text, position)
    return match.start() if match else len(text)


def _ends_element(text: str, position: int) -> bool:
    """Whether what follows a value can follow an element of an array, else the value is a piece of damage."""
    follow = _skip(text, position)
    return follow == len(text) or text[follow] in ",]"


def _parse(text: str, start: int, most: int = sys.maxsize) -> _Parsed:
    """Parse the JSON value at a position. Windows keep it fast: a parser's error costs time for all text before it.

    A value that is longer than `most` is unfinished.
    """
    window = 1 << 14
    while True:
        piece = text[start : start + min(window, most)]
        is_whole = start + window >= len(text) or window >= most
        window *= 16
        try:
            value, end = _decoder.raw_decode(piece)
        except RecursionError:
            return _Parsed(None, None, start + _TOO_DEEP, False)
        except json.JSONDecodeError as error:
            unfinished = error.msg.startswith("Unterminated string") or error.pos >= len(piece) - 16
            if unfinished and not is_whole:
                continue
            # A string whose end was hit goes on to the next quote, perhaps that of `{"` where the next event starts.
            quote = piece.rfind('"', 0, max(0, piece.rfind('"', 0, error.pos)))
            return _Parsed(None, None, start + max(0, quote), unfinished)
        if end < len(piece) or is_whole:
            return _Parsed(value, start + end, start, False)


def _repair(text: str) -> str:
    """An event that Python's parser accepts, in strict JSON: no raw control characters, no lone surrogates."""
    if _CONTROL.search(text):
        text = _STRING.sub(lambda string: _CONTROL.sub(lambda code: f"\\u{ord(code[0]):04x}", string[0]), text)
    if "\\u" in text or "\\U" in text:
        text = _LONE_SURROGATE.sub(r"\1\\ufffd", text)
    return text
