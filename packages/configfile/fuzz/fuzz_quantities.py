"""Any text as a duration and as a quantity of bytes: read exactly, or refused in words."""

from __future__ import annotations

from collections.abc import Iterator

from mesh_configfile import (
    Duration,
    DurationError,
    QuantityError,
    parse_bytes,
    parse_duration,
    spell_duration,
)


def check(data: bytes) -> None:
    """What is read can be written and read again."""
    text = data.decode("utf-8", "surrogateescape")
    for days in (False, True):
        try:
            found = parse_duration(text, allow_days=days)
        except DurationError as error:
            assert str(error)
        else:
            assert parse_duration(spell_duration(found)) == found
            if not days:
                assert abs(Duration.parse(text) - found.total_seconds()) <= 1e-6 * (1 + found.days)
    try:
        size = parse_bytes(text)
    except QuantityError as error:
        assert str(error)
    else:
        assert 0 <= size < 1 << 63


def originals() -> Iterator[bytes]:
    """The forms that Go, protobuf and Kubernetes have."""
    for text in ("24h", "1h30m", "100ms", "1.5s", "0", ".5s", "1us", "1\u00b5s", "30d", "10s"):
        yield text.encode()
    for text in ("32Mi", "1.5Gi", "500M", "0", ".1k", "9Ei"):
        yield text.encode()
