"""Merges a piece of bootstrap of the user's into the whole, by arguments for Envoy."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from envoy_supervisor._errors import BootstrapError
from mesh_filewatch import ReadTimedOut, read_bytes_with_timeout

log = logging.getLogger(__name__)

MAX_BYTES = 128 * 1024 - 1
"""The size that Linux takes as one argument."""
_MAX_FILE_BYTES = 1 << 20

_HOST_IP = re.compile(r"(?P<open>\[?)\$\(HOST_IP\)(?P<close>\]?)(?P<port>:?)")


def bootstrap_override(path: Path, environ: Mapping[str, str] = {}) -> tuple[str, ...]:
    """Return arguments for `EnvoyConfig.extra_args` that merge a YAML or JSON file.

    Envoy merges it into the bootstrap as protobuf does: objects field by field, lists by appending.
    `$(HOST_IP)` stands for that variable of `environ`; an IPv6 address gets brackets where a port
    follows. Every user of the machine can read arguments: no place for keys.

    A file that cannot be read is logged and left out. Raises `BootstrapError` for one that is too
    large or no text, or whose mount hangs. Waits for that for some seconds.
    """
    try:
        content = read_bytes_with_timeout(path, max_bytes=_MAX_FILE_BYTES)
    except ReadTimedOut as error:
        raise BootstrapError(
            f"bootstrap override {path} cannot be read: {error.strerror}"
        ) from error
    except OSError as error:
        log.warning(
            "ignored a bootstrap override that cannot be read",
            extra={"path": str(path), "why": error.strerror},
        )
        return ()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise BootstrapError(f"bootstrap override {path} is not UTF-8 text") from error
    text = _with_host_ip(text, environ.get("HOST_IP", ""))
    if "\0" in text:
        raise BootstrapError(f"bootstrap override {path} is not UTF-8 text: it holds a zero byte")
    if (size := len(text.encode())) > MAX_BYTES:
        raise BootstrapError(
            f"bootstrap override {path} has {size} bytes, and Envoy can be given {MAX_BYTES}; "
            "write a whole bootstrap file instead"
        )
    return ("--config-yaml", text) if text.strip() else ()


def _with_host_ip(text: str, host_ip: str) -> str:
    if not host_ip:
        return text
    try:
        bracketed = isinstance(ip_address(host_ip), IPv6Address)
    except ValueError as error:
        raise BootstrapError(f"HOST_IP is {host_ip!r}, which is not an IP address") from error

    def address(match: re.Match[str]) -> str:
        if bracketed and match["port"] and not match["open"]:
            return f"[{host_ip}]{match['close']}:"
        return f"{match['open']}{host_ip}{match['close']}{match['port']}"

    return _HOST_IP.sub(address, text)
