"""A trace that is being changed, and its way to JSON text, also to text that no parser of ours would write."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]

# Text between these is written without quotes: a number with more digits, or in a spelling, that no float has.
_BARE = re.compile('"\ue000([^\ue001]*)\ue001"')


def bare(text: str) -> str:
    """A value that is written as it is, such as `1E+5`."""
    return f"\ue000{text}\ue001"


class Again(str):
    """A key that an object can have beside another one of the same text."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass
class Draft:
    """The parts of a trace file. Elements of `events` need not be events once they are changed."""

    top: dict[str, Any]
    events: list[Any]
    layout: dict[str, Any] = field(default_factory=dict)

    def pick(self, rng: random.Random, *, ph: str | None = None, most: int | None = None) -> list[Event]:
        """Some of the events: one, a few, many or all; only those with these phases, if given."""
        chosen = [event for event in self.events if isinstance(event, dict)]
        if ph is not None:
            chosen = [event for event in chosen if str(event.get("ph")) in ph]
        share = rng.choice([0, 0.003, 0.03, 0.3, 1])
        count = max(1, round(len(chosen) * share))
        if most is not None:
            count = min(count, most)
        return chosen if count >= len(chosen) else rng.sample(chosen, count)

    def text(self) -> str:
        """The file as JSON text, one event per line unless the layout says otherwise."""
        ascii_only = self.layout.get("ascii", True)
        indent = self.layout.get("indent")
        separators = self.layout.get("separators", (", ", ": "))

        def dumps(value: Any) -> str:
            return json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators)

        between = self.layout.get("between", ",\n")
        if self.layout.get("one_by_one") or not self.events:
            events = between.join(map(dumps, self.events))
        else:  # one call is faster than thousands
            events = dumps(self.events)[1:-1]
        if self.layout.get("array"):
            text = f"[{events}]\n"
        else:
            members = [f"{dumps(key)}: {dumps(value)}" for key, value in self.top.items()]
            at = min(self.layout.get("events_at", len(members)), len(members))
            members.insert(at, f'"traceEvents": [\n{events}\n]')
            text = "{\n" + ",\n".join(members) + "\n}\n"
        if ascii_only:
            text = text.replace("\\ue000", "\ue000").replace("\\ue001", "\ue001")
        return _BARE.sub(r"\1", text)
