"""Any text from a metadata server as JSON: an object, or a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from mesh_platform import NoMetadata
from mesh_platform._http import read_object


def check(data: bytes) -> None:
    """It is an object, or NoMetadata says what it is instead."""
    with suppress(NoMetadata):
        assert isinstance(read_object(data.decode("utf-8", "surrogateescape"), "it"), dict)


def originals() -> Iterator[bytes]:
    """Answers of two clouds."""
    yield b'{"region":"eu-west-1","availabilityZone":"eu-west-1a","accountId":"1"}'
    yield b'{"compute":{"location":"westeurope","zone":"1","tags":"a:b;c:d"}}'
