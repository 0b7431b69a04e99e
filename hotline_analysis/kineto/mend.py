"""Repair events in invalid JSON to strict JSON, without losing data.

Some writers use words as JSON values (`"warps per SM": N/A` in old Kineto; `nan` and `inf` from printf), do not escape
backslashes in Windows paths or quotes in names, or omit the last brace of an event. The form of the surrounding members
shows where a value ends, so no data is lost.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

# Words used as values: by C's printf and its Windows version, Kineto, Python and JavaScript.
_WORDS = r"[-+]?(?:nan|inf(?:inity)?)(?:\(\w*\))?|-?1\.#\w+|n/a|none|undefined|true|false"
_LITERALS = {"true": "true", "false": "false"}  # Python spells them True and False
# A time that is not a number is kept as text, so that the report of damaged events can show it.
_TIME_KEY = re.compile(r'"(?:ts|dur)"\s*:\s*\Z')
_LONGEST_KEY = 32  # characters of `"dur"`, a colon and spaces

WORD_LIKE = r"[:\[,\n] *-?(?:nan|NaN|NAN|inf|Inf|INF)"
PATH_LIKE = r'\\[bfnrt][^:"]*\.pyw?\(\d|"[A-Za-z]:\\[bfnrt]'
"""Patterns of texts that the database accepts as JSON although the writer meant something else."""

# The members of an event in the Trace Event Format. A quote before such a member ends a name.
_MEMBERS = "ph|cat|name|pid|tid|ts|dur|id|id2|args|s|bp|tts|tdur|cname|scope|sf|stack|bind_id|flow_in|flow_out"
_ENDS_MEMBER = re.compile(rf'"(?=\s*(?:,\s*"(?:{_MEMBERS})"\s*:|\}}))')
_ENDS_ARGUMENT = re.compile(r'"(?=\s*(?:,\s*"[^"\n]*"\s*:|\}))')
_ENDS_ITEM = re.compile(r'"(?=\s*[,\]])')
_KEY = re.compile(r'\s*("(?:[^"\\\n]|\\.)*")\s*:\s*')
_SPACE = re.compile(r"\s*")
_PLAIN = re.compile(r"(?:-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?=\s*[,\]}])")
_WORD = re.compile(rf"(?:{_WORDS})(?=\s*[,\]}}])", re.IGNORECASE)
# Each string is one match, also without an end, so that the search takes time in proportion to the text.
_STRING_OR_WORD = re.compile(
    r'"(?P<string>[^"\\]*+(?:\\.[^"\\]*+)*+)(?P<end>"?)'
    rf"|(?<=[:\[,])(?P<space>\s*)(?P<word>{_WORDS})(?=\s*[,\]}}])",
    re.DOTALL | re.IGNORECASE,
)
_FOLLOWS_EVENT = re.compile(r"\s*(?:,|\]|\Z)")
_FOLLOWS_EVENTS = re.compile(r'\s*\]\s*(?:,\s*"|\}?\s*\Z)')
_OTHER_MEMBERS = re.compile(r'"(?:ph|pid|tid|ts|dur|args)"\s*:')
_QUOTE = re.compile(r'(\\*)"')
_ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]|(.?))', re.DOTALL)
# Read as JSON, a path with a JSON escape would contain a control character, which real paths never do.
_LONE_ESCAPE = r"\\(?:[bfnrt]|u(?![0-9a-fA-F]{4}))"  # `\u00e9` is an é written by Python's json
_FILE = rf"[^:/]*?(?<!\\){_LONE_ESCAPE}[^:/]*\.pyw?\(\d+\)"  # with a slash, a backslash separates no folders
_PATH = re.compile(rf"(?:[A-Za-z]:)?{_FILE}|[A-Za-z]:{_LONE_ESCAPE}\w")
_TRIES = 200  # string ends tried for one event
_DEEPEST = 32

WORDS, BACKSLASHES, QUOTES, ENDS = "words", "backslashes", "quotes", "ends"
_SENTENCES = {
    WORDS: "values that JSON does not have (such as N/A, nan or inf) are unknown: {:,}",
    BACKSLASHES: "texts with single backslashes are read literally: {:,}",
    QUOTES: "texts with unescaped quotes are read literally: {:,}",
    ENDS: "events without their last brace are closed: {:,}",
}


class Mended(NamedTuple):
    """A repaired event in strict JSON, its end in the source text, and the number of repairs by kind."""

    text: str
    end: int
    repairs: Counter[str]


def sentence(repairs: Counter[str]) -> str | None:
    """Return a sentence about the repairs in a file; None without repairs."""
    parts = [words.format(repairs[kind]) for kind, words in _SENTENCES.items() if repairs[kind]]
    return f"the writer's errors are repaired: {'; '.join(parts)}" if parts else None


def mend(text: str) -> Mended | None:
    """Repair words and backslashes of an event that fills the text. None if unchanged, or if still not JSON."""
    repairs: Counter[str] = Counter()

    def repaired(match: re.Match[str]) -> str:
        if match["word"] is None:
            is_plain = "\\" not in match["string"] or not match["end"]
            return match[0] if is_plain else _string(match["string"], repairs)
        if match["word"] in _LITERALS:
            return match[0]  # already valid
        repairs[WORDS] += 1
        before = text[max(0, match.start() - _LONGEST_KEY) : match.start()]
        return match["space"] + _value(match["word"], is_time=bool(_TIME_KEY.search(before)))

    json_text = _STRING_OR_WORD.sub(repaired, text)
    return Mended(json_text, len(text), repairs) if repairs.total() and _is_json(json_text) else None


def mend_at(text: str, *, may_lack_end: bool) -> Mended | None:
    """Return the repaired event at the start of a text; None if the event cannot be repaired.

    With `may_lack_end`, the event fills the text and may lack its closing braces.
    """
    event = _Reader(text, may_lack_end=may_lack_end).read()
    return event if event and _is_json(event.text) else None


def _is_json(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _value(word: str, *, is_time: bool) -> str:
    """Return the JSON value for a word."""
    return _LITERALS.get(word.lower(), f'"{word}"' if is_time else "null")


def _string(raw: str, repairs: Counter[str]) -> str:
    """Return a JSON string from the raw text between a writer's quotes."""
    escapes = list(_ESCAPE.finditer(raw)) if "\\" in raw else []
    if any(match[1] is not None for match in escapes) or _PATH.match(raw):
        repairs[BACKSLASHES] += 1
        raw = raw.replace("\\", "\\\\").replace('\\\\"', '\\"')
    content = _QUOTE.sub(lambda match: match[0] if len(match[1]) % 2 else f'{match[1]}\\"', raw)
    repairs[QUOTES] += content != raw
    return f'"{content}"'


class _Choice(NamedTuple):
    """A string with several possible end quotes, and the state of the reader at its start."""

    ends: Iterator[int]
    start: int
    written: int
    brackets: str
    members: tuple[str, ...]
    repairs: Counter[str]


class _Reader:
    """Reads one object member by member, and tries the possible ends of each string until the object is one event."""

    def __init__(self, text: str, *, may_lack_end: bool) -> None:
        self._text = text
        self._at = 0
        self._may_lack_end = may_lack_end
        self._out: list[str] = []
        self._brackets = ""
        self._members: tuple[str, ...] = ()  # keys of the event itself; each may occur once
        self._repairs: Counter[str] = Counter()
        self._choices: list[_Choice] = []

    def read(self) -> Mended | None:
        """Return the event; None if no choice makes the text an event."""
        if self._text[self._at : self._at + 1] != "{":
            return None
        tries = 0
        is_well = self._open("{")
        while True:
            if is_well and not self._brackets:
                if '"ph"' in self._members and _FOLLOWS_EVENT.match(self._text, self._at):
                    return Mended("".join(self._out), self._at, self._repairs)
                is_well = False
            if not is_well:
                tries += 1
                if tries > _TRIES or not self._go_back():
                    return None
            is_well = self._after() if self._out[-1] not in "{[,:" else self._member()

    def _write(self, text: str, end: int) -> bool:
        self._out.append(text)
        self._at = end
        return True

    def _open(self, bracket: str) -> bool:
        self._brackets += bracket
        return len(self._brackets) <= _DEEPEST and self._write(bracket, self._at + 1)

    def _after(self) -> bool:
        """Read the text after a value: a comma or a closing bracket."""
        match = _SPACE.match(self._text, self._at)
        assert match
        char = self._text[match.end() : match.end() + 1]
        if char == ",":
            return self._write(",", match.end() + 1)
        if char and char == {"{": "}", "[": "]"}[self._brackets[-1]]:
            self._brackets = self._brackets[:-1]
            return self._write(char, match.end() + 1)
        if self._lacks_end(char):
            self._repairs[ENDS] += 1
            self._out.append("}" * len(self._brackets))
            self._brackets = ""
            return True
        return False

    def _lacks_end(self, char: str) -> bool:
        """Return whether only closing braces are missing at the end of the event."""
        if set(self._brackets) != {"{"} or self._repairs[QUOTES]:
            return False
        return (self._may_lack_end and not char) or (char == "]" and bool(_FOLLOWS_EVENTS.match(self._text, self._at)))

    def _member(self) -> bool:
        """Read a member of an object or an item of an array, or the end of an empty object or array."""
        match = _SPACE.match(self._text, self._at)
        assert match
        start = match.end()
        closing = {"{": "}", "[": "]"}[self._brackets[-1]]
        if self._out[-1] in "{[" and self._text[start : start + 1] == closing:
            self._brackets = self._brackets[:-1]
            return self._write(closing, start + 1)
        if self._brackets[-1] == "{":
            key = _KEY.match(self._text, self._at)
            if key is None:
                return False
            if len(self._brackets) == 1:
                if key[1] in self._members:
                    return False
                self._members += (key[1],)
            self._out.append(f"{key[1]}:")
            start = key.end()
        return self._value(start)

    def _value(self, start: int) -> bool:
        char = self._text[start : start + 1]
        self._at = start
        if char in ("{", "["):
            return self._open(char)
        if char == '"':
            choice = _Choice(
                self._ends(start + 1), start, len(self._out), self._brackets, self._members, self._repairs.copy()
            )
            self._choices.append(choice)
            return self._go_back()
        if match := _PLAIN.match(self._text, start):
            return self._write(match[0], match.end())
        if match := _WORD.match(self._text, start):
            self._repairs[WORDS] += 1
            is_time = len(self._brackets) == 1 and self._members[-1] in ('"ts"', '"dur"')
            return self._write(_value(match[0], is_time=is_time), match.end())
        return False

    def _ends(self, start: int) -> Iterator[int]:
        """Yield the quotes that may end a string. Escaped quotes come last, as the least likely."""
        ends = _ENDS_ITEM if self._brackets[-1] == "[" else _ENDS_ARGUMENT
        # Only names and arguments are free text.
        if len(self._brackets) == 1:
            ends = _ENDS_MEMBER
        is_free = len(self._brackets) > 1 or self._members[-1] == '"name"'
        escaped = []
        for match in ends.finditer(self._text, start):
            raw = self._text[start : match.start()]
            if _OTHER_MEMBERS.search(raw):
                break  # no longer inside a text
            if not is_free and '"' in raw:
                break
            if (len(raw) - len(raw.rstrip("\\"))) % 2:
                escaped.append(match.start())
            else:
                yield match.start()
        yield from escaped

    def _go_back(self) -> bool:
        """Try the next end of the last string with another possible end."""
        while self._choices:
            choice = self._choices[-1]
            end = next(choice.ends, None)
            if end is None:
                self._choices.pop()
                continue
            del self._out[choice.written :]
            self._brackets, self._members = choice.brackets, choice.members
            self._repairs = choice.repairs.copy()
            return self._write(_string(self._text[choice.start + 1 : end], self._repairs), end + 1)
        return False
