"""Reads values from agents of any version: what is missing or strange does no harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

_SHORT_SERIAL = 12


def mapping(document: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return an object in an object; an empty one for anything else."""
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def sequence(document: Mapping[str, object], key: str) -> Sequence[object]:
    """Return a list in an object; an empty one for anything else."""
    value = document.get(key)
    return value if isinstance(value, list) else ()


def objects(document: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    """Return the objects of a list in an object."""
    return [each for each in sequence(document, key) if isinstance(each, dict)]


def text(document: Mapping[str, object], key: str) -> str:
    """Return a value as text; empty for one that is missing."""
    value = document.get(key)
    return "" if value is None or isinstance(value, dict | list) else str(value)


def number(document: Mapping[str, object], key: str) -> int:
    """Return a whole number; 0 for anything else."""
    value = document.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def moment(document: Mapping[str, object], key: str) -> datetime | None:
    """Return a time; None for anything else."""
    try:
        found = datetime.fromisoformat(text(document, key))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def seconds_between(earlier: datetime | None, later: datetime | None) -> int | None:
    """Return whole seconds; None if one of the times is not known."""
    if earlier is None or later is None:
        return None
    return int((later - earlier).total_seconds())


def short_serial(serial: str) -> str:
    """Return the end of a serial number, by which two certificates differ at a glance.

    The authority writes into the first digits when the holder proved its identity, so that those
    of one day begin alike; the last are random.
    """
    return serial if len(serial) <= _SHORT_SERIAL + 4 else f"…{serial[-_SHORT_SERIAL:]}"


def shown_time(when: datetime) -> str:
    """Return a time in UTC, to the second."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
