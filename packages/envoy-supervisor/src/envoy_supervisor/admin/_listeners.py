"""Where Envoy listens, read from its admin interface's `/listeners`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envoy_supervisor._json import JSON


def listening_addresses(listeners: Mapping[str, JSON]) -> tuple[str, ...]:
    """Return the addresses in an answer of `/listeners?format=json`, as Envoys name them.

    UDP is left out: it has no connections that could wait. If one listener is in another network
    namespace, none is returned: addresses alone do not tell them apart.
    """
    addresses: list[str] = []
    for address in _addresses(listeners):
        match address:
            case {"socket_address": {"network_namespace_filepath": str(path)}} if path:
                return ()
            case {"socket_address": {"protocol": "UDP"}}:
                continue
            case {"socket_address": {"address": str(host), "port_value": int(port)}}:
                addresses.append(
                    f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
                )
            case {"pipe": {"path": str(path)}}:
                addresses.append(f"unix://{path}")
            case _:
                continue
    return tuple(dict.fromkeys(addresses))


def _addresses(listeners: Mapping[str, JSON]) -> Iterator[JSON]:
    statuses = listeners.get("listener_statuses")
    for status in statuses if isinstance(statuses, list) else []:
        if isinstance(status, dict):
            yield status.get("local_address")
            more = status.get("additional_local_addresses")
            yield from more if isinstance(more, list) else []
