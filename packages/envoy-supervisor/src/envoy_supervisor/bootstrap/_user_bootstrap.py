"""Reads the few settings that the supervisor needs from a bootstrap file of the user's."""

from __future__ import annotations

import json
from pathlib import Path

from envoy_supervisor._address import Address, UnixAddress
from envoy_supervisor._errors import BootstrapError
from envoy_supervisor.bootstrap._stats_config import DEFAULT_FLUSH_S
from mesh_filewatch import read_bytes

MAX_BOOTSTRAP_BYTES = 64 << 20


def admin_address(path: Path) -> Address | UnixAddress:
    """Return where the admin interface of a JSON bootstrap listens. Raises `BootstrapError`."""
    advice = "name it in EnvoyConfig.admin"
    try:
        address = json.loads(read_bytes(path, max_bytes=MAX_BOOTSTRAP_BYTES))["admin"]["address"]
        match address:
            case {"socket_address": {"address": str(host), "port_value": int(port)}}:
                return Address(host=host, port=port)
            case {"pipe": {"path": str(socket)}}:
                return UnixAddress(path=Path(socket))
            case _:
                pass
    except OSError as error:
        raise BootstrapError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise BootstrapError(
            f"cannot see in {path} where the admin interface listens, it is not JSON: {advice}"
        ) from error
    except (KeyError, TypeError):
        pass
    raise BootstrapError(
        f"{path} gives no admin address that can be used (admin.address.socket_address with "
        f"address and port_value, or pipe with path): {advice}"
    )


def stats_flush_s(path: Path) -> float:
    """Return how often Envoy brings its statistics up to date, with this bootstrap."""
    try:
        text = json.loads(read_bytes(path, max_bytes=MAX_BOOTSTRAP_BYTES))["stats_flush_interval"]
        return float(text.removesuffix("s"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return DEFAULT_FLUSH_S


def sets_log_format(content: str) -> bool:
    """Return whether a bootstrap sets a log format, which Envoy refuses to have twice."""
    return "application_log_config" in content or "applicationLogConfig" in content
