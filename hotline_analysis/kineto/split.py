"""Text of a trace file → texts of its events, without parsing them one by one.

The separators between events are found by a regular expression in native code. That is a guess: `},{` may also stand
inside an event. The guess is checked for every event, again in native code, since a piece that starts at an event and
ends inside it is never valid JSON. Only around pieces that fail the check is the text parsed step by step, which finds
the true borders, the end of the array, and damage.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import polars as pl

# `\s` would match Unicode spaces, which JSON forbids, and is ten times slower.
_SEPARATOR = r"\}[ \t\r\n]*,[ \t\r\n]*\{"
_SEPARATOR_PATTERN = re.compile(_SEPARATOR)
_SPACE = " \t\r\n\ufeff"
_NOT_SPACE = re.compile(r"[^ \t\r\n\ufeff]")
_EVENTS_KEY = re.compile(r'"traceEvents"\s*:\s*\[')
_EVENT_LIKE = re.compile(r'\[\s*(?=\{\s*"(?:ph|name|cat|ts|pid|tid|dur|args)"\s*:)')
_ARRAY_END = re.compile(r'\}\s*(?=\]\s*(?:,\s*"(?:[^"\\]|\\.)*"\s*:|\}?\s*\Z))')
_CONTROL = re.compile(r"[\x00-\x1f]")
_LONE_SURROGATE = re.compile(
    r"(?<!\\)((?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_DAMAGED = "some events are damaged and were skipped"
_LIMIT = 64 << 20  # longest event, and longest value beside the events, that is waited for

_decoder = json.JSONDecoder(strict=False)


@dataclass
class Damage:
    """What could not be read. `notes` are sentences for the user."""

    lost_events: int = 0
    lost_bytes: int = 0
    truncated: bool = False
    notes: list[str] = field(default_factory=list)

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
    """Texts of events, each a JSON object, and their event ids."""

    texts: pl.Series
    ids: pl.Series


class EventSplitter:
    """Splits the text of one trace file. Iterate once; `metadata` and `damage` are complete afterwards."""

    def __init__(self, chunks: Iterable[str]) -> None:
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
        self._checker = duckdb.connect(config={"threads": 1, "python_enable_replacements": False})

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
            self.has_trace_key = True
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
                rest = self._text[position + 1 :]
                if not self.found_events or _EVENT_LIKE.search(rest):
                    return self._search(position + 1)
                return False
            key, position = self._value(position)
            if not isinstance(key, str):
                return self._search(0)
            position = self._skip_space(position)
            if self._text[position : position + 1] != ":":
                return self._search(0)
            position = self._skip_space(position + 1)
            if key == "traceEvents" and self._text[position : position + 1] == "[":
                return self._enter(position + 1)
            start = position
            value, position = self._value(position)
            if position < 0:
                return self._search(start)
            self.metadata[key] = value
            self._text = self._text[position:]

    def _value(self, position: int) -> tuple[Any, int]:
        """Parse one JSON value, reading on while it is incomplete; the position is -1 when that fails."""
        while True:
            try:
                return _decoder.raw_decode(self._text, position)
            except RecursionError:
                return None, -1
            except ValueError:
                if len(self._text) - position > _LIMIT or not self._more():
                    return None, -1

    def _enter(self, position: int) -> bool:
        self._text = self._text[position:]
        self.found_events = self.has_trace_key = True
        return True

    def _search(self, position: int) -> bool:
        """The top level is damaged: look for the events wherever they are."""
        self._text = self._text[position:]
        skipped = 0
        while True:
            match = _EVENTS_KEY.search(self._text) or _EVENT_LIKE.search(self._text)
            if match:
                self.damage.note("the text around the events is damaged")
                self.damage.lost_bytes += skipped + match.start()
                return self._enter(match.end())
            keep = max(0, len(self._text) - 1024)
            skipped += keep
            self._text = self._text[keep:]
            if not self._more():
                if self.found_events:
                    self.damage.note("the text after the events is damaged")
                    self.damage.lost_bytes += skipped + len(self._text)
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
            end = -1 if self._final else self._last_separator()
            if end < 0 and not self._final:
                if len(self._text) > _LIMIT:
                    self.damage.lose(self._text, 1)
                    self.damage.note("a single event is longer than 64 MiB")
                    self._text = ""
                self._more()
                continue
            if end < 0:
                body, rest = self._text, ""
            else:
                body, rest = self._text[: end + 1], self._text[self._text.index("{", end) :]
            if batch := self._split(body, rest):
                yield batch
            if not self._at_end:
                self._more()

    def _last_separator(self) -> int:
        """Position of the `}` of the last `},{` in the text, or -1."""
        text = self._text
        brace = len(text)
        while (brace := text.rfind("{", 0, brace)) > 0:
            before = text[max(0, brace - 256) : brace].rstrip(_SPACE)
            if before.endswith(",") and before[:-1].rstrip(_SPACE).endswith("}"):
                return text.rindex("}", 0, brace)
        return -1

    def _split(self, body: str, rest: str) -> Batch | None:
        """Take the events out of `body`, which starts at an event; `rest` is the text after the separator behind it.

        Sets `_text` to what is to be read next: the rest, or an event that needs more text, or the text behind the
        array's end. An empty `rest` means that the file has no more text than `body`.
        """
        pieces = pl.Series([body[1:]]).str.split(_SEPARATOR, literal=False).explode()
        last = len(pieces) - 1
        closed = pl.when(pl.int_range(pl.len()) < last).then(pl.lit("}")).otherwise(pl.lit(""))
        texts = pl.DataFrame({"p": pieces}).select(pl.concat_str([pl.lit("{"), pl.col("p"), closed])).to_series()
        wrong = self._invalid(texts) if body[0] == "{" else list(range(len(texts)))
        self._text = rest
        if wrong:
            return self._careful(body, rest, texts, wrong)
        if not rest:
            self._cut("the file ends inside the events")
            self._at_end = True
        return self._batch([texts])

    def _invalid(self, texts: pl.Series) -> list[int]:
        """Positions of the texts that are not valid JSON, ascending."""
        frame = pl.DataFrame({"position": pl.int_range(len(texts), eager=True), "text": texts})
        self._checker.register("pieces", frame.to_arrow())
        rows = self._checker.sql("select position from pieces where not json_valid(text) order by position").fetchall()
        self._checker.unregister("pieces")
        return [row[0] for row in rows]

    def _batch(self, parts: list[pl.Series | int]) -> Batch | None:
        """Number the events; an integer in `parts` stands for so many lost ones, which keep their numbers."""
        texts, ids = [], []
        for part in parts:
            count = part if isinstance(part, int) else len(part)
            if not isinstance(part, int):
                texts.append(part)
                ids.append(pl.int_range(self._next_id, self._next_id + count, eager=True))
            self._next_id += count
        return Batch(pl.concat(texts), pl.concat(ids)) if texts else None

    def _careful(self, body: str, rest: str, texts: pl.Series, wrong: list[int]) -> Batch | None:
        """Split a text in which some pieces are no events: parse from each wrong piece on until a border fits again."""
        starts = [0, *(match.end() - 1 for match in _SEPARATOR_PATTERN.finditer(body))]
        parts: list[pl.Series | int] = []
        piece = 0
        while piece < len(starts):
            next_wrong = bisect.bisect_left(wrong, piece)
            stop = wrong[next_wrong] if next_wrong < len(wrong) else len(starts)
            if stop > piece:
                parts.append(texts[piece:stop])
            if stop == len(starts):
                break
            event, end = self._event_at(body, starts[stop], more=bool(rest))
            if end is None:  # the event goes on behind this text
                self._text = f"{body[starts[stop] :]},{rest}"
                return self._batch(parts)
            if event is None:
                damaged_end = starts[stop + 1] if stop + 1 < len(starts) else len(body)
                array_end = _ARRAY_END.search(body, starts[stop], min(len(body), damaged_end + 256))
                end = array_end.end() if array_end and array_end.end() <= damaged_end else damaged_end
                self._lose(body[starts[stop] : end], 1)
                if not rest and end == len(body):
                    self.damage.notes.remove(_DAMAGED)
                    break
                parts.append(1)
            else:
                parts.append(pl.Series([event]))
            follow = _NOT_SPACE.search(body, end)
            if follow and body[follow.start()] == "]":
                self._text = body[follow.start() + 1 :] + (f",{rest}" if rest else "")
                self._at_end = True
                return self._batch(parts)
            piece = bisect.bisect_left(starts, end)
            between = body[end : starts[piece] if piece < len(starts) else len(body)].strip(_SPACE + ",")
            if between:
                self._lose(between, 0)
        if not rest:
            self._cut("the file ends inside the events")
            self._at_end = True
        return self._batch(parts)

    def _lose(self, text: str, events: int) -> None:
        self.damage.lose(text, events)
        self.damage.note(_DAMAGED)

    @staticmethod
    def _event_at(body: str, start: int, *, more: bool) -> tuple[str | None, int | None]:
        """Parse the event at a position: its repaired text and its end; the end is None if more text is needed."""
        try:
            _, end = _decoder.raw_decode(body, start)
        except RecursionError:
            return None, start
        except json.JSONDecodeError as error:
            unfinished = error.msg.startswith("Unterminated string") or error.pos >= len(body) - 16
            return None, None if more and unfinished and len(body) - start < _LIMIT else start
        return (_repair(body[start:end]), end) if body[start] == "{" else (None, start)


def _repair(text: str) -> str:
    """An event that Python's parser accepts, in strict JSON: no raw control characters, no lone surrogates."""
    if _CONTROL.search(text):
        text = _CONTROL.sub(" ", text)
    if "\\u" in text or "\\U" in text:
        text = _LONE_SURROGATE.sub(r"\1\\ufffd", text)
    return text
