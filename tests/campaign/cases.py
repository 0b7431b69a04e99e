"""A case: which trace, which mutations, which file; all of it follows from its seed."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.campaign import bases, exports, mutations
from tests.campaign.draft import Draft

_EXPORTS = 0.1  # the share of cases that damage an export of Nsight Systems


@dataclass(frozen=True)
class Case:
    """What a seed stands for."""

    seed: int
    base: str
    structure: tuple[str, ...]
    text: tuple[str, ...]
    file: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of its mutations."""
        return (*self.structure, *self.text, *self.file)

    def content(self) -> bytes:
        """The bytes of the file."""
        rng = random.Random(f"content {self.seed}")
        if self.base == exports.BASE:
            return exports.changed(rng, list(self.structure), list(self.file))
        original = bases.base(self.base)
        draft = Draft(copy.deepcopy(original.top), copy.deepcopy(original.events))
        for name in self.structure:
            mutations.STRUCTURE[name](rng, draft)
        draft.layout = _layout(rng)
        data = draft.text().encode("utf-8", "surrogatepass")
        for name in self.text:
            data = mutations.TEXT[name](rng, data)
        for name in self.file:
            data = mutations.FILE[name](rng, data)
        return data


def case(seed: int, names: Sequence[str] = bases.NAMES) -> Case:
    """The case of a seed, on one of these traces."""
    other = random.Random(f"export {seed}")  # of its own, so that the other cases stay what they are
    if names != bases.GENERATED and other.random() < _EXPORTS:
        return export_case(seed)
    rng = random.Random(f"case {seed}")
    base = bases.NAMES[rng.randrange(len(bases.NAMES))]
    if base not in names:
        base = names[rng.randrange(len(names))]
    structure = rng.sample(list(mutations.STRUCTURE), rng.choice([0, 1, 1, 2, 2, 3, 4]))
    text = rng.sample(list(mutations.TEXT), rng.choice([0, 0, 0, 1, 1, 2]))
    file = rng.sample(list(mutations.FILE), rng.choice([0, 0, 0, 0, 1]))
    if not (structure or text or file):
        structure = [rng.choice(list(mutations.STRUCTURE))]
    return Case(seed, base, tuple(structure), tuple(text), tuple(file))


def export_case(seed: int) -> Case:
    """The case of a seed on an export of Nsight Systems."""
    rng = random.Random(f"export case {seed}")
    structure = rng.sample(list(exports.EXPORT), rng.choice([0, 1, 1, 2, 2, 3]))
    file = rng.sample(list(exports.BYTES), 1 if not structure else rng.choice([0, 0, 1]))
    return Case(seed, exports.BASE, tuple(structure), (), tuple(file))


def untouched(name: str) -> Case:
    """A trace as it is; the oracles have to be content with it."""
    return Case(-1, name, (), (), ())


def _layout(rng: random.Random) -> dict[str, object]:
    layout: dict[str, object] = {"one_by_one": True, "ascii": rng.random() < 0.6}
    kind = rng.randrange(6)
    if kind == 0:
        layout |= {"separators": (",", ":"), "between": ","}
    elif kind == 1:
        layout |= {"indent": 2}
    elif kind == 2:
        layout |= {"separators": (" ,\t", "\r\n: "), "between": "\n\n,\t "}
    elif kind == 3:
        layout |= {"array": rng.random() < 0.5, "events_at": 0}
    return layout
