"""Runs programs that only tell something: Envoy's version, and the rules that capture traffic."""

import asyncio
import os
import shutil
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from mesh_doctor._observed import SeenCapture, SeenEnvoy

_MAX_OUTPUT_BYTES = 4 << 20
_CHAINS = (b"ISTIO_REDIRECT", b"ISTIO_IN_REDIRECT", b"ISTIO_TPROXY", b"ISTIO_OUTPUT")
"""The chains of Istio's rules; each of its modes has one of them at least."""
_LISTINGS = (
    ("iptables-save",),
    ("nft", "list", "ruleset"),
)
_SEARCHED = "/usr/local/sbin:/usr/sbin:/sbin"


class _Failed(Exception):
    """A program gave no output; the message says why."""


async def seen_envoy(binary: Path, *, timeout_s: float) -> SeenEnvoy:
    """Return an Envoy's version, which is also a proof that it runs on this machine."""
    try:
        output = await _output((str(binary), "--version"), timeout_s=timeout_s)
    except _Failed as error:
        return SeenEnvoy(problem=f"{binary} {error}")
    words = output.decode("utf-8", "replace").split()
    # envoy  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL
    for before, word in pairwise(words):
        if before == "version:" and word.count("/") >= 2:
            return SeenEnvoy(version=word.split("/")[1])
    return SeenEnvoy(problem=f"{binary} does not tell its version as Envoy does: is it one?")


async def seen_capture(*, timeout_s: float) -> SeenCapture:
    """Return whether this network namespace has rules that capture traffic."""
    if os.geteuid() != 0:
        return SeenCapture(rules=None, reason="only root may list the rules of iptables")
    path = f"{os.environ.get('PATH', os.defpath)}:{_SEARCHED}"
    reasons = []
    listed = False
    for name, *arguments in _LISTINGS:
        program = shutil.which(name, path=path)
        if program is None:
            continue
        try:
            output = await _output((program, *arguments), timeout_s=timeout_s)
        except _Failed as error:
            reasons.append(f"{name} {error}")
            continue
        listed = True
        if any(chain in output for chain in _CHAINS):
            return SeenCapture(rules=True)
    if listed:
        return SeenCapture(rules=False)
    return SeenCapture(rules=None, reason="; ".join(reasons) or "there is no iptables and no nft")


async def _output(command: tuple[str, ...], *, timeout_s: float) -> bytes:
    """Return a program's output, so many bytes at most; raises `_Failed`."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_MAX_OUTPUT_BYTES,
        )
    except OSError as error:
        raise _Failed(f"can't be run: {error.strerror or error}") from error
    try:
        async with asyncio.timeout(timeout_s):
            output = await _read(process)
            code = await process.wait()
    except TimeoutError:
        raise _Failed(f"did not end within {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if code != 0:
        raise _Failed(f"ended with status {code}")
    return output


async def _read(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    kept = bytearray()
    while chunk := await process.stdout.read(64 << 10):
        if len(kept) < _MAX_OUTPUT_BYTES:
            kept += chunk
    return bytes(kept)
