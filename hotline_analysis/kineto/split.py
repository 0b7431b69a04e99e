"""Split the text of a trace file into texts of events, without parsing each event in Python.

A regular expression finds the separators between events in native code. This is a guess: `},{` may also occur inside an
event. Every event is therefore checked, again in native code: a piece that starts at an event and ends inside it is
never valid JSON. Only around pieces that fail the check, the text is parsed step by step. This finds the true borders,
the end of the array, and damage. After damage, reading continues at the next object with a `ph`.
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
_AROUND = "the text around the events is damaged"
_DAMAGED = "some events are damaged and were skipped"
_TOO_LONG = "a single event is longer than 16 MiB"
_LIMIT = 64 << 20  # maximum length of a value outside the events
# Maximum length of an event. To check a text, the database needs up to 16 bytes per character.
_LONGEST_EVENT = 16 << 20

# An unfinished text of this length with complete events inside is a damaged event that includes its successors.
_SUSPICIOUS = 1 << 20
# Budget for reparsing text after damage: this amount, plus the amount read. Beyond the budget, more text is skipped, so
# that the time for a file full of damage stays proportional to its size.
_PATIENCE = 1 << 26
_SHORT = 8 << 20  # a shorter text is probably the last one
_MENDED = 1 << 16  # maximum length of an event to repair
_TOO_DEEP = 1 << 16  # amount skipped of text nested too deeply to parse
_MAX_DIGITS = 4000  # Python refuses to convert longer integers

_decoder = json.JSONDecoder(strict=False, parse_int=lambda text: int(text) if len(text) < _MAX_DIGITS else float(text))


@dataclass
class Damage:
    """The unreadable parts of a file. `notes` are sentences for the user; `repairs` counts repaired events."""

    lost_events: int = 0
    lost_bytes: int = 0
    truncated: bool = False
    notes: list[str] = field(default_factory=list)
    repairs: Counter[str] = field(default_factory=Counter)
    borders: list[int] = field(default_factory=list)
    """Ids of the first events of additional documents, written by other writers after the end of the first document."""
    whole: list[int] = field(default_factory=list)
    """The same, for documents with an intact beginning."""

    def note(self, text: str) -> None:
        """Add a sentence to `notes`, unless `notes` has the sentence already or is full."""
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
    """A JSON value and its end. If the end is None, `failed` and `unfinished` describe the damage."""

    value: Any
    end: int | None
    failed: int
    unfinished: bool


class EventSplitter:
    """Splits the text of one trace file. Iterate once; `metadata` and `damage` are complete afterwards.

    `checker` is a connection to any database. It is closed at the end.
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
        self._has_ended = False
        self._doubtful: list[int] = []  # possible starts of another document
        self.first_metadata: dict[str, Any] | None = None
        self._patience = _PATIENCE
        self._checker = checker

    def __iter__(self) -> Iterator[Batch]:
        """Yield the events in file order."""
        try:
            yield from self._document()
            if self._doubtful:
                self.damage.note(_AROUND)
        finally:
            self._checker.close()

    # --- the document around the events -------------------------------------------------------------------------

    def _more(self) -> bool:
        """Append the next chunk to the text; return False at the end of the file."""
        chunk = next(self._chunks, None)
        if chunk is None:
            self._final = True
            return False
        self._text += chunk
        self._patience += len(chunk)
        return True

    def _skip_space(self, position: int) -> int:
        """Return the position of the next non-space character, or of the end of the file."""
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
            self._has_ended = not self.damage.truncated
            while not self._at_padding() and self._search(0):
                yield from self._events()
            return
        if self._text[position] != "{":
            return
        self._text = self._text[position + 1 :]
        while self._members():
            yield from self._events()

    def _members(self) -> bool:
        """Read the top-level members up to the next array of events; return False if there is none."""
        while True:
            position = self._skip_space(0)
            if position < len(self._text) and self._text[position] == ",":
                position = self._skip_space(position + 1)
                if position < len(self._text) and self._text[position] == "{":
                    return self._enter(position)  # the events continue: the array's end belonged to a damaged event
            if position == len(self._text):
                if not self.damage.truncated:
                    self._cut("the file ends before its outermost brace is closed")
                return False
            if self._text[position] == "}":
                self._text = self._text[position + 1 :]
                self._has_ended = self.found_events
                if self.found_events and self._at_padding():
                    return False
                if self.found_events and self._at_document():
                    continue
                return self._search(0)
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
            if key in self.metadata and self._doubtful:
                self._confirm_others()
            if "\\" in self._text[start:position]:
                value = _decoder.decode(_repair(self._text[start:position]))
            self.metadata[key.encode("utf-8", "replace").decode()] = value
            self._text = self._text[position:]

    def _value(self, position: int) -> tuple[Any, int]:
        """Return the JSON value at a position, and the position after the value; -1 if no value can be read.

        Reads more text while the value is incomplete.
        """
        while True:
            try:
                value, end = _decoder.raw_decode(self._text, position)
                # The next character shows whether a number is complete; other values have their own closing character.
                if self._text[end : end + 1] in _DELIMITERS or isinstance(value, str | list | dict) or not self._more():
                    return value, end
            except RecursionError:
                return None, -1
            except ValueError:
                if len(self._text) - position > _LIMIT or not self._more():
                    return None, -1

    def _at_padding(self) -> bool:
        """Return whether only white space and zeros are left in the file."""
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
        """Find the events after damage at the top level.

        After some events, single events count too: the supposed end of their array may have been damage.
        """
        self._text = self._text[position:]
        skipped = lost_events = 0
        while True:
            match = _EVENTS_KEY.search(self._text) or _EVENT_LIKE.search(self._text)
            events_start = match.end() if match else None
            keep = max(0, len(self._text) - 1024)
            if self.found_events and self._patience > 0:
                self._patience -= 16 * len(self._text)  # the text is split again, at about this cost
                event, is_whole = self._next_event(self._text, 0, more=not self._final)
                if event is not None and is_whole:
                    events_start = event if events_start is None else min(events_start, event)
                elif event is not None and len(self._text) - event < _LONGEST_EVENT:
                    keep = event
            if events_start is not None:
                lost_events += self._text.count('"ph"', 0, events_start)
                if self._has_ended:
                    self._begin_other(is_certain=not skipped and self._text[:events_start].strip(_SPACE) == "[")
                else:
                    self.damage.note(_AROUND)
                self.damage.lost_bytes += skipped + events_start
                self.damage.lost_events += lost_events
                return self._enter(events_start)
            lost_events += self._text.count('"ph"', 0, keep)
            skipped += keep
            self._text = self._text[keep:]
            if not self._more():
                if self.found_events:
                    self.damage.note("the text after the events is damaged")
                    self.damage.lost_bytes += skipped + len(self._text)
                    self.damage.lost_events += lost_events + self._text.count('"ph"')
                return False

    def _begin_other(self, *, is_certain: bool) -> None:
        """Note that events follow the end of a document.

        They belong to another document if a key of the first document follows again.
        """
        self._has_ended = False
        self._doubtful.append(self._next_id)
        if self.first_metadata is None:
            self.first_metadata = dict(self.metadata)
        if is_certain:
            self._confirm_others()

    def _at_document(self) -> bool:
        """Enter a complete document that follows the end of another document. Return False if there is none."""
        start = self._skip_space(0)
        if not _OBJECT.match(self._text, start) or _MEMBER.match(self._text, start):
            return False
        self._begin_other(is_certain=True)
        self.damage.whole.append(self._next_id)
        self._text = self._text[start + 1 :]
        return True

    def _confirm_others(self) -> None:
        self.damage.borders += self._doubtful
        self._doubtful = []

    def _cut(self, why: str) -> None:
        self.damage.truncated = True
        self.damage.note(why)

    # --- the events ---------------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Batch]:
        """Read events up to the end of their array, and leave the text after the array in `_text`."""
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
                    # An event read in several pieces uses one event id.
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
        """Return the position of the `}` of the last `},{` in the text, or -1."""
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
        """Extract the events from the text, which starts at an event: up to the last separator at `end`, or all if -1.

        Sets `_text` to the remaining text: the next event or the comma before it, an event that needs more text, or the
        text after the end of the array.
        """
        text, is_last = self._text, end < 0
        # Two rows, because Polars treats a one-row column as a scalar and copies it at every step. The second row and
        # the piece after the last separator are not events.
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
            # The next event without the comma before it: removing the comma later would copy the whole next text.
            separator = _SEPARATOR_PATTERN.match(text, end)
            assert separator
            self._text = text[separator.end() - 1 :]
        return self._batch([texts], counts)

    def _mend(self, texts: pl.Series, counts: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Repair events in invalid JSON and update their field counts."""
        doubtful = set((counts.is_null() | texts.str.contains(mend.WORD_LIKE)).arg_true())
        # Backslashes are rare, and much faster to find than the pattern.
        rows = texts.str.contains("\\", literal=True).arg_true()
        doubtful.update(rows.filter(texts.gather(rows).str.contains(mend.PATH_LIKE)))
        indices, mended_texts = [], []
        for index in sorted(doubtful):
            if repair := mend.mend(texts[index]):
                indices.append(index)
                mended_texts.append(repair.text)
                self.damage.repairs += repair.repairs
        if not indices:
            return texts, counts
        replacements = pl.Series(mended_texts, dtype=pl.String)
        return texts.scatter(indices, replacements), counts.scatter(indices, self._count_fields(replacements))

    def _count_fields(self, texts: pl.Series) -> pl.Series:
        """Return the number of fields of each text; NULL for a text that is invalid JSON or too long."""
        is_long = texts.str.len_bytes() > _LONGEST_EVENT
        if is_long.any():
            texts = pl.select(pl.when(is_long).then(pl.lit("")).otherwise(texts)).to_series()
        newest = pl.CompatLevel.newest()  # keeps the engines from copying the texts
        self._checker.register("pieces", pa.table({"text": texts.to_arrow(compat_level=newest)}))
        counts: pl.Series = self._checker.sql('select try(len(json_keys("text"))) as fields from pieces').pl()["fields"]
        self._checker.unregister("pieces")
        return counts

    def _batch(self, parts: list[pl.Series | list[str] | int], field_counts: pl.Series | None = None) -> Batch | None:
        """Number the events. An integer in `parts` is a count of lost events, which keep their numbers."""
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
        # Searched in all texts at once, because checking the args of every event would cost as much as decoding.
        return Batch(events, pl.concat(ids), counts, events.str.contains('"Collective name"', literal=True).any())

    def _careful(self, body: str, rest: str, texts: pl.Series, wrong: list[int]) -> Batch | None:
        """Split a text with some invalid pieces: parse from each invalid piece on until a border fits again.

        `body` starts at an event; `rest` is the text from the following comma on, empty at the end of the file.
        """
        starts = [0, *(match.end() - 1 for match in _SEPARATOR_PATTERN.finditer(body))]
        parts: list[pl.Series | list[str] | int] = []
        position = 0
        while position < len(body):
            piece = bisect.bisect_left(starts, position)
            if piece < len(starts) and starts[piece] == position:
                next_wrong = bisect.bisect_left(wrong, piece)
                stop = wrong[next_wrong] if next_wrong < len(wrong) else len(starts)
                if stop > piece:
                    parts.append(texts[piece:stop])
                    position = starts[stop] if stop < len(starts) else len(body)
                    continue
            parsed = _parse(body, position, _SUSPICIOUS)
            # An apparent writer's error may be a valid event whose end is not read yet.
            may_go_on = parsed.unfinished and rest != "" and len(body) - position < _MENDED
            repair = self._mend_at(body, position, starts) if parsed.end is None and not may_go_on else None
            inner_start = (
                self._swallowed(body, position, parsed.failed) if parsed.end is None and repair is None else None
            )
            if parsed.unfinished and inner_start is None and repair is None and len(body) - position > _SUSPICIOUS:
                parsed = _parse(body, position)
            end = parsed.end
            if repair is not None:
                self.damage.repairs += repair.repairs
                parts.append([_repair(repair.text)])
                end = repair.end
            elif end is None or (body[position] != "{" and not _ends_element(body, end)):
                longest = _LONGEST_EVENT if inner_start is None else _SUSPICIOUS
                if parsed.unfinished and rest and len(body) - position < longest:
                    self._text = body[position:] + rest
                    return self._batch(parts)
                end = inner_start or self._after_damage(body, position, parsed.failed, more=bool(rest))
                lost_text = body[position:end]
                count = max(lost_text.count('"ph"'), int(lost_text.startswith("{")))
                self.damage.lose(lost_text, count)
                if not rest and end == len(body):
                    break
                self.damage.note(_DAMAGED)
                parts.append(count)
            elif (
                end - position > _LONGEST_EVENT // 4
                and len(body[position:end].encode("utf-8", "replace")) > _LONGEST_EVENT
            ):
                self.damage.lose(body[position:end], 1)
                self.damage.note(_TOO_LONG)
                parts.append(1)
            elif body[position] != "{":
                self.damage.lose(body[position:end], 1)
                self.damage.note("the event array contains other values than events")
                parts.append(1)
            else:
                text = body[position:end]
                if word_repair := mend.mend(text):
                    self.damage.repairs += word_repair.repairs
                    text = word_repair.text
                if parts and isinstance(parts[-1], list):
                    parts[-1].append(_repair(text))
                else:
                    parts.append([_repair(text)])
            position = _skip(body, end)
            if body[position : position + 1] == "]":
                # If the following text cannot follow the last event, the bracket is an extra end inside the events.
                event, _ = (
                    (None, False)
                    if _BEHIND_EVENTS.match(body, position)
                    else self._next_event(body, position, more=False)
                )
                if event is None:
                    self._text = body[position + 1 :] + rest
                    self._at_end = True
                    return self._batch(parts)
                self.damage.lose(body[position:event], body.count('"ph"', position, event))
                self.damage.note(_DAMAGED)
                position = event
            while body[position : position + 1] == ",":
                position = _skip(body, position + 1)
        if not rest:
            self._cut("the file ends inside the events")
            self._at_end = True
        return self._batch(parts)

    def _mend_at(self, body: str, at: int, starts: list[int]) -> mend.Mended | None:
        """Repair the invalid event at a position. `starts` are the apparent starts of events."""
        follows = bisect.bisect_right(starts, at)
        if follows < len(starts) and _MEMBER.match(body, starts[follows]):
            piece = body[at : body.rindex("}", at, starts[follows]) + 1]
            if repair := mend.mend_at(piece, may_lack_end=True):
                return repair._replace(end=at + len(piece))
        repair = mend.mend_at(body[at : at + _MENDED], may_lack_end=False)
        return repair._replace(end=at + repair.end) if repair else None

    def _swallowed(self, body: str, start: int, failed: int) -> int | None:
        """Return the start of the first complete event inside a damaged event that has no end."""
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
        """Return the position after a damaged event: the next event, else the array's end, else the end of the text."""
        event, _ = self._next_event(body, max(start + 1, failed), more=more)
        if event is not None:
            return event
        array_end = _ARRAY_END.search(body, start)
        return array_end.end() if array_end else len(body)

    def _next_event(self, text: str, position: int, *, more: bool) -> tuple[int | None, bool]:
        """Return the start of the next object with a `ph`, and whether the object is complete.

        An incomplete object is accepted only if `more` text follows.
        """
        while match := _OBJECT.search(text, position):
            parsed = _parse(text, match.start())
            if parsed.end is not None and "ph" in parsed.value:
                return match.start(), True
            if parsed.unfinished and more:
                return match.start(), False
            position = max(match.start() + 1, parsed.failed)
            if parsed.end is not None:  # search inside the object, within the time budget
                self._patience -= parsed.end - match.start()
                position = position if self._patience > 0 else parsed.end
        return None, False


def _skip(text: str, position: int) -> int:
    match = _NOT_SPACE.search(text, position)
    return match.start() if match else len(text)


def _ends_element(text: str, position: int) -> bool:
    """Return whether the text after a value can follow an array element; otherwise the value is a piece of damage."""
    follow = _skip(text, position)
    return follow == len(text) or text[follow] in ",]"


def _parse(text: str, start: int, most: int = sys.maxsize) -> _Parsed:
    """Parse the JSON value at a position, in windows: a parser error takes time for all the text before it.

    A value longer than `most` counts as unfinished.
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
            # A string without its end extends to the next quote, perhaps the quote in `{"` at the start of the next
            # event.
            quote = piece.rfind('"', 0, max(0, piece.rfind('"', 0, error.pos)))
            return _Parsed(None, None, start + max(0, quote), unfinished)
        if end < len(piece) or is_whole:
            return _Parsed(value, start + end, start, False)


def _repair(text: str) -> str:
    """Return an event accepted by Python's parser as strict JSON: no raw control characters, no lone surrogates."""
    if _CONTROL.search(text):
        text = _STRING.sub(lambda string: _CONTROL.sub(lambda code: f"\\u{ord(code[0]):04x}", string[0]), text)
    if "\\u" in text or "\\U" in text:
        text = _LONE_SURROGATE.sub(r"\1\\ufffd", text)
    return text
