"""Fetches a config dump: of an Envoy's admin port, of its agent, or from a file."""

import http.client
import json
from pathlib import Path

from istio_config.addresses import split_host_port
from mesh_discovery.comparison._held import Held, NotADumpError, read_config_dump

_PATHS = ("/config_dump?include_eds", "/debug/config_dump?include_eds")
"""Of Envoy's admin port, and of the status port of mesh-agent."""
_MAX_BYTES = 1 << 30


class SourceError(Exception):
    """A config dump that can't be had or read; the message says why."""


def fetch_held(source: str, *, timeout_s: float = 10.0) -> Held:
    """Read what an Envoy has from `host:port` or a file; raises `SourceError`."""
    file = Path(source)
    try:
        if file.is_file():
            body = file.read_bytes()
        else:
            host, port = split_host_port(source)
            body = _fetch(host or "127.0.0.1", port, source, timeout_s=timeout_s)
    except ValueError as error:
        raise SourceError(
            f"there is no file {source}, and it is no HOST:PORT of an Envoy's admin interface; "
            "give one of the two"
        ) from error
    except OSError as error:
        raise SourceError(
            f"{source} can't be read: {error.strerror or error}; "
            "give the admin port of an Envoy that runs, or a file with its config dump"
        ) from error
    try:
        return read_config_dump(json.loads(body))
    except NotADumpError as error:
        raise SourceError(f"{source}: {error}") from error
    except ValueError as error:
        raise SourceError(f"{source}: not JSON: {error}") from error


def _fetch(host: str, port: int, source: str, *, timeout_s: float) -> bytes:
    status = 0
    for path in _PATHS:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            status, body = response.status, response.read(_MAX_BYTES)
        except http.client.HTTPException as error:
            raise SourceError(f"{source} does not speak HTTP: {error!r}") from error
        finally:
            connection.close()
        if status == http.client.OK:
            return body
    raise SourceError(
        f"{source} has no config dump (status {status}): give the admin port of an Envoy, "
        "15000 unless set, or the status port of its agent"
    )
