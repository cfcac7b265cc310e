"""The wait until what is saved is with every proxy, by the document of `/debug/distribution`."""

import time
from collections.abc import Callable
from typing import TypedDict

from mesh_discovery.serve._status import (
    StatusDocument,
    StatusError,
    fetch_document,
    fetch_status,
    status_problems,
    workload_of,
)

PATH = "/debug/distribution"
_POLL_S = 0.05


class DistributionDocument(TypedDict):
    """The JSON of `/debug/distribution`.

    read: what the files hold at this moment is what is served, but for files that are wrong.
    waiting: the node ids of connected proxies that have not answered all that there is for them.
    """

    read: bool
    proxies: int
    waiting: list[str]


class NotDistributed(Exception):
    """Saved files are not with every proxy; each argument is a sentence that says why."""


def wait_for_distribution(
    host: str,
    port: int,
    *,
    timeout_s: float,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Return once every connected proxy has accepted what was saved before; how many they are.

    Raises `NotDistributed` when files are wrong, proxies refuse or time is up, and `StatusError` if
    the control plane does not answer.
    """
    until = now() + timeout_s
    while True:
        document = fetch_distribution(host, port)
        if document["read"] and not document["waiting"]:
            break
        if now() >= until:
            raise NotDistributed(_what_is_waited_for(document, timeout_s))
        sleep(_POLL_S)
    if problems := list(status_problems(_of_what_was_saved(fetch_status(host, port)))):
        raise NotDistributed(*problems)
    return document["proxies"]


def fetch_distribution(host: str, port: int) -> DistributionDocument:
    """Ask the monitoring port; raises `StatusError`."""
    document = fetch_document(host, port, PATH)
    if "waiting" not in document:
        raise StatusError(f"{host}:{port} tells nothing of its proxies: is it of an older version?")
    return DistributionDocument(
        read=document["read"], proxies=document["proxies"], waiting=document["waiting"]
    )


def _what_is_waited_for(document: DistributionDocument, timeout_s: float) -> str:
    if not document["read"]:
        return f"the control plane has not read what is saved after {timeout_s:g} s"
    names = ", ".join(sorted(map(workload_of, document["waiting"])))
    return f"not accepted after {timeout_s:g} s by the proxies of: {names}"


def _of_what_was_saved(document: StatusDocument) -> StatusDocument:
    """Leave in a status what keeps saved files from acting.

    What can't be reached is judged later than it is sent, and may have been so before.
    """
    return {**document, "unreachable": [], "taken": [], "patches": [], "not_served": []}
