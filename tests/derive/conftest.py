"""Tests of derived tables annotate a built trace only as far as the tables that they look at."""

from __future__ import annotations

import pytest

from tests import made


@pytest.fixture(autouse=True)
def only_as_far_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """`TraceBuilder.load` gives a trace whose tables are made when they are asked for."""
    monkeypatch.setattr("tests.trace_builder.opened", made.opened)
