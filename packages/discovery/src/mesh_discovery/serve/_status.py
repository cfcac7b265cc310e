"""The document of `/debug/status`: its shape, how it is fetched, and its sentences for people."""

import http.client
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TypedDict

from mesh_discovery._addresses import bracketed

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
    patches: list[ProblemStatus]
    """Of EnvoyFilters, that proxies go without."""
    proxies: int
    not_served: list[NotServedStatus]
    refused: list[RefusedStatus]
    open_files: str
    """Empty, or that no more files can be opened."""


def fetch_status(host: str, port: int, *, timeout_s: float = 5.0) -> StatusDocument:
    """Ask the monitoring port; raises `StatusError`."""
    place = f"{bracketed(host)}:{port}"
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", PATH)
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
        document: StatusDocument | None = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "wrong_files" not in document:
        raise StatusError(f"{place} is not the monitoring port of a mesh-discovery")
    return document


def status_problems(document: StatusDocument) -> Iterator[str]:
    """Yield a line for each thing that is not as it is configured, with its place."""
    for wrong in document["wrong_files"]:
        yield from _wrong_file(wrong)
    if trouble := document.get("open_files", ""):
        yield trouble
    for each in (*document["unreachable"], *document["taken"]):
        yield f"not reached: {_problem(each)}"
    for each in document.get("patches", ()):
        yield f"left out: {_problem(each)}"
    for missing in document["not_served"]:
        who = "gateway" if "://" in missing["name"] else "gRPC program"
        yield (
            f"not served: {missing['name']}, which the {who} {missing['proxy']} asks for: "
            f"{missing['reason']}"
        )
    for refused in document["refused"]:
        yield (
            f"refused since {_time(refused['since'])} by the proxy {refused['proxy']} "
            f"({refused['type']}): {refused['message']}"
        )


def status_notes(document: StatusDocument) -> Iterator[str]:
    """Yield a line for each thing that is accepted without effect, or hardly meant so."""
    for each in document["unsupported"]:
        yield f"without effect: {_problem(each)}"
    for each in document.get("warnings", ()):
        yield f"warning: {_problem(each)}"


def _wrong_file(wrong: WrongFileStatus) -> Iterator[str]:
    kept = "nothing of it is served"
    if wrong["kept"] is not None:
        count = wrong["kept"]["objects"]
        kept = f"its last good content is served, of {_time(wrong['kept']['read_at'])}, "
        kept += f"{count} object{'' if count == 1 else 's'}"
    yield f"wrong since {_time(wrong['since'])}: {wrong['file']}; {kept}"
    for each in wrong["problems"]:
        yield f"  {_problem(each)}"


def _problem(each: ProblemStatus) -> str:
    place = f"{each['file']}:{each['line']}: " if each["file"] else ""
    field = f"{each['field']}: " if each["field"] else ""
    return f"{place}{field}{each['message']}"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
