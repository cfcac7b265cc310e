"""Whether and how Wasm modules are fetched for Envoy, from Istio's settings."""

from collections.abc import Iterator
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import NamedTuple

from istio_settings import Settings

_CACHE = "./var/lib/istio/data/wasm"
_BLOCKED = "BLOCKED_CIDRS_IN_WASM_FETCH"
_MOST_BYTES = "ISTIO_WASM_MAX_BINARY_SIZE_BYTES"


class WasmSettings(NamedTuple):
    """The settings of `wasm_modules.WasmConfig`, which is not loaded before it is needed.

    cache: directory of the modules.
    """

    cache: Path
    expiry: timedelta
    purge_interval: timedelta
    request_timeout: timedelta
    max_retries: int
    max_module_bytes: int
    blocked_networks: tuple[IPv4Network | IPv6Network, ...]
    insecure_registries: frozenset[str]


def wasm_settings(settings: Settings) -> WasmSettings | None:
    """Return the settings; None if Envoy is to fetch its modules itself."""
    converts = settings.flag("ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION", default=True)
    found = WasmSettings(
        cache=settings.path("MESH_AGENT_WASM_CACHE", _CACHE),
        expiry=settings.positive_duration("WASM_MODULE_EXPIRY", timedelta(hours=24)),
        purge_interval=settings.positive_duration("WASM_PURGE_INTERVAL", timedelta(hours=1)),
        request_timeout=settings.positive_duration(
            "WASM_HTTP_REQUEST_TIMEOUT", timedelta(seconds=15)
        ),
        max_retries=settings.whole_number("WASM_HTTP_REQUEST_MAX_RETRIES", 5),
        max_module_bytes=_most_bytes(settings),
        blocked_networks=tuple(_networks(settings)),
        insecure_registries=frozenset(_items(settings.text("WASM_INSECURE_REGISTRIES"))),
    )
    return found if converts else None


def _most_bytes(settings: Settings) -> int:
    default, least = 256 * 1024 * 1024, 8
    most = settings.count(_MOST_BYTES, default)
    if most < least:
        settings.problems.append(f"{_MOST_BYTES} is {most}, no module is that small")
        return default
    return most


def _networks(settings: Settings) -> Iterator[IPv4Network | IPv6Network]:
    for item in _items(settings.text(_BLOCKED)):
        try:
            yield ip_network(item, strict=False)
        except ValueError:
            settings.problems.append(
                f"{_BLOCKED} has {item!r}, it must be networks such as 10.0.0.0/8, with commas"
            )


def _items(text: str) -> list[str]:
    return [item for each in text.split(",") if (item := each.strip())]
