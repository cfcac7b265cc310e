"""Any bytes as an archive: a module of bounded size or a refusal, and no other file."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from wasm_modules import FetchError
from wasm_modules.unpacking._unpacking import in_image, unpack

_MOST = 1 << 16
_MODULE = b"\0asm\1\0\0\0" + b"x" * 40


def check(data: bytes) -> None:
    """The first byte says whether it is a layer of an image, and whether gzip is put around it."""
    if not data:
        return
    packed = gzip.compress(data[1:], 1) if data[0] & 2 else data[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, module = folder / "packed", folder / "module"
        path.write_bytes(packed)
        with suppress(FetchError):
            unpack(path, module, most=_MOST, wanted=in_image if data[0] & 1 else None)
            assert module.read_bytes().startswith(b"\0asm")
        assert {each.name for each in folder.iterdir()} <= {"packed", "module"}
        assert not module.exists() or module.stat().st_size <= _MOST


def originals() -> Iterator[bytes]:
    """A module as it is, in tar of each format, with long names and sparse parts."""
    yield b"\0" + _MODULE
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        for name in ("plugin.wasm", "a" * 120 + "/plugin.wasm"):
            written = io.BytesIO()
            with tarfile.open(fileobj=written, mode="w", format=form) as archive:
                other = tarfile.TarInfo("manifest.yaml")
                other.size = 3
                archive.addfile(other, io.BytesIO(b"a:b"))
                entry = tarfile.TarInfo(name)
                entry.size = len(_MODULE)
                if form == tarfile.PAX_FORMAT:
                    entry.pax_headers = {"comment": "x", "mtime": "1.5"}
                archive.addfile(entry, io.BytesIO(_MODULE))
            for how in (b"\0", b"\1", b"\2"):
                yield how + written.getvalue().rstrip(b"\0") + b"\0" * 1024
