"""Texts of the other sides' as they are shown to people: in status, log, CSDS and reasons.

A name may have a MiB, and a refusal the names of a thousand clusters.
"""

from __future__ import annotations

from collections.abc import Iterable

REASON, NAME = 4096, 512
"""The most characters of a text that is shown."""


def shorten(text: str, most: int = REASON) -> str:
    """Return a text, or its beginning and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def shown_names(names: Iterable[str]) -> list[str]:
    """Return names as they are shown."""
    return [shorten(name, NAME) for name in names]
