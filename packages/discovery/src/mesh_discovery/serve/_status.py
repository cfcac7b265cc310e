"""The document of `/debug/status`: its shape, how it is fetched, and its sentences for people."""

import http.client
import json
import socket
import time
from collections.abc import Iterator
from typing import Any, NotRequired, TypedDict, cast

from istio_config.addresses import bracketed
from mesh_command_line import span

PATH = "/debug/status"
_MAX_BYTES = 16 * 1024 * 1024


class StatusError(Exception):
    """A control plane whose status can't be had; the message says why."""


class ProblemStatus(TypedDict):
    """A mistake and its place; `mesh_configfile.Problem`."""

    file: str
    line: int
    field: str
    message: str
    code: NotRequired[str]
    """What Istio's analyzers call the like."""


class LastGoodStatus(TypedDict):
    """The content served in place of a wrong file, and when it was read (Unix seconds)."""

    objects: int
    read_at: float


class WrongFileStatus(TypedDict):
    """A file that is not served as it is."""

    file: str
    since: float
    problems: list[ProblemStatus]
    kept: LastGoodStatus | None


class NotServedStatus(TypedDict):
    """A listener or a secret that a proxy asks for, and why there is none."""

    proxy: str
    name: str
    reason: str


class RefusedStatus(TypedDict):
    """A response that a proxy refused."""

    proxy: str
    type: str
    message: str
    since: float


class StatusDocument(TypedDict):
    """The JSON of `/debug/status`."""

    version: str
    loaded_at: float
    looked_at: float
    wrong_files: list[WrongFileStatus]
    unsupported: list[ProblemStatus]
    warnings: list[ProblemStatus]
    unreachable: list[ProblemStatus]
    taken: list[ProblemStatus]
    """Services that found no place to listen at some proxy."""
    only_by_http_proxy: list[ProblemStatus]
    """That services are reached from some workloads through the HTTP proxy alone; no fault."""
    patches: list[ProblemStatus]
    """Of EnvoyFilters, that proxies go without."""
    proxies: int
    not_served: list[NotServedStatus]
    without_metrics: NotRequired[str]
    """The proxies whose Envoys are too old to make Istio's metrics; empty if there are none."""
    refused: list[RefusedStatus]
    open_files: str
    """Empty, or that no more files can be opened."""


def fetch_status(host: str, port: int) -> StatusDocument:
    """Ask the monitoring port; raises `StatusError`."""
    document = fetch_document(host, port, PATH)
    if "wrong_files" not in document:
        raise _not_ours(host, port)
    return cast("StatusDocument", document)


def fetch_document(host: str, port: int, path: str, *, timeout_s: float = 5.0) -> dict[str, Any]:
    """Ask the monitoring port for a page that is a JSON object; raises `StatusError`."""
    place = f"{bracketed(host)}:{port}"
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(_MAX_BYTES)
    except ConnectionRefusedError:
        raise StatusError(
            f"nothing listens on {place}: --monitoring-addr must be what the control plane was "
            "started with"
        ) from None
    except socket.gaierror as error:
        raise StatusError(
            f"the host name of {place} can't be resolved ({error.strerror}); give an IP address"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise StatusError(
            f"{place} does not answer: {str(error) or type(error).__name__}"
        ) from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        said = body.decode(errors="replace").strip()[:200]
        raise StatusError(f"{place} answered with status {response.status}: {said}")
    try:
        document: object = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise _not_ours(host, port)
    return document


def _not_ours(host: str, port: int) -> StatusError:
    return StatusError(f"{bracketed(host)}:{port} is not the monitoring port of a mesh-discovery")


def status_problems(document: StatusDocument, *, now: float | None = None) -> Iterator[str]:
    """Yield a line for each thing that is not as it is configured, with its place.

    now: Unix seconds, by which is computed how long something is so; None: what the clock says.
    """
    now = time.time() if now is None else now
    for wrong in document["wrong_files"]:
        yield from _wrong_file(wrong, now)
    if trouble := document.get("open_files", ""):
        yield trouble
    if old := document.get("without_metrics", ""):
        yield f"without Istio's metrics: {old}"
    for each in (*document["unreachable"], *document["taken"]):
        yield f"not reached: {_problem(each)}"
    for each in document.get("patches", ()):
        yield f"left out: {_problem(each)}"
    for missing in document["not_served"]:
        who = "gateway" if "://" in missing["name"] else "gRPC program"
        yield (
            f"not served: {missing['name']}, which the {who} {workload_of(missing['proxy'])} asks "
            f"for: {missing['reason']}"
        )
    for refused in document["refused"]:
        yield (
            f"refused for {span(now - refused['since'])}: {_type(refused['type'])}, by the proxy "
            f"of {workload_of(refused['proxy'])}: {refused['message']}"
        )


def status_notes(document: StatusDocument) -> Iterator[str]:
    """Yield a line for each thing that is as configured, and may still surprise."""
    for each in document.get("only_by_http_proxy", ()):
        yield f"note: {_problem(each)}"
    for each in document["unsupported"]:
        yield f"without effect: {_problem(each)}"
    for each in document.get("warnings", ()):
        yield f"warning: {_problem(each)}"


def _wrong_file(wrong: WrongFileStatus, now: float) -> Iterator[str]:
    kept = "nothing of it is served"
    if wrong["kept"] is not None:
        count = wrong["kept"]["objects"]
        kept = f"what was good {span(now - wrong['kept']['read_at'])} ago is served, "
        kept += f"{count} object{'' if count == 1 else 's'}"
    yield f"wrong for {span(now - wrong['since'])}: {wrong['file']}; {kept}"
    for each in wrong["problems"]:
        yield f"  {_problem(each)}"


def _problem(each: ProblemStatus) -> str:
    line = f":{each['line']}" if each["line"] else ""
    place = f"{each['file']}{line}: " if each["file"] else ""
    field = f"{each['field']}: " if each["field"] else ""
    return f"{place}{field}{each['message']}"


_TYPES = {
    "cluster": "clusters",
    "endpoint": "endpoints",
    "listener": "listeners",
    "route": "routes",
    "secret": "secrets",
    "extension": "extensions",
}
"""The names of types in the document, as people name them."""


def _type(name: str) -> str:
    """Return the name of a type for people; of one that is not known the last word of its URL."""
    return _TYPES.get(name, name.rpartition(".")[2])


def workload_of(node_id: str) -> str:
    """Return the `name.namespace` of a node id, `TYPE~ADDRESS~NAME.NAMESPACE~DOMAIN`."""
    parts = node_id.split("~")
    return parts[2] if len(parts) > 2 else node_id
