"""What stands for a browser and the viewer in tests of `hotline view`: it fetches the trace that the address names."""

from __future__ import annotations

import urllib.request
import webbrowser

import pytest

from hotline_analysis.cli import serving


def visit(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Let `hotline view` find a browser that fetches at once, on a port that is free; returns what it has fetched."""
    fetched: list[bytes] = []

    def browse(address: str) -> bool:
        with urllib.request.urlopen(address.partition("url=")[2]) as answer:
            fetched.append(answer.read())
        return True

    served = serving.served
    monkeypatch.setattr(webbrowser, "open", browse)
    monkeypatch.setattr(serving, "served", lambda file, port: served(file, 0))
    return fetched
