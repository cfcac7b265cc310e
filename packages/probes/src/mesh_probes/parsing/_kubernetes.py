"""The probes of a pod's containers, as Istio's injection writes them into the agent's environment.

`ISTIO_KUBE_APP_PROBERS` holds a JSON object: the path at which the kubelet asks the agent, and the
probe of the application that the agent then makes. Source:
https://istio.io/latest/docs/ops/configuration/mesh/app-health-check/
"""

import json
import re
from collections.abc import Mapping

from mesh_probes._errors import ProbeConfigError
from mesh_probes._probe import Action, Probe
from mesh_probes.parsing._fields import (
    Fields,
    fields_of,
    grpc_health,
    http_get,
    raise_all,
    tcp_socket,
)

_PATH = re.compile(
    r"/app-health/[^/]+/(livez|readyz|startupz)|/app-lifecycle/[^/]+/(prestopz|poststartz)"
)
_HANDLERS = ("httpGet", "tcpSocket", "grpc")
_DEFAULT_TIMEOUT_S = 1
_LIFECYCLE_TIMEOUT_S = 3600
"""The kubelet itself ends such a request, when the pod's grace period is over."""


def parse_kubernetes_probers(text: str, *, http2: bool = False) -> Mapping[str, Probe]:
    """Return the probe of each path; an empty text has none.

    http2: offer HTTP/2 to the applications whose scheme is https.
    A `host` in a probe is for the kubelet and not used: the application is where the agent is.
    Raises `ProbeConfigError` with all that is wrong, each with the path of its probe.
    """
    if not text.strip():
        return {}
    problems: list[str] = []
    probes: dict[str, Probe] = {}
    seen: set[str] = set()
    for path, value in _entries(text, problems):
        if not _PATH.fullmatch(path):
            problems.append(
                f"{_short(path)}: the path is neither /app-health/CONTAINER/ with livez, readyz or"
                " startupz, nor /app-lifecycle/CONTAINER/ with prestopz or poststartz"
            )
        elif path in seen:
            problems.append(f"{path}: there are two probes with this path")
        elif (fields := fields_of(value, subject=path, problems=problems)) is not None:
            lifecycle = path.startswith("/app-lifecycle/")
            timeout_s = fields.integer("timeoutSeconds") or (
                _LIFECYCLE_TIMEOUT_S if lifecycle else _DEFAULT_TIMEOUT_S
            )
            if (action := _action(fields, http2=http2)) is not None:
                probes[path] = Probe(action=action, timeout_s=timeout_s)
        seen.add(path)
    raise_all(problems)
    return probes


def _entries(text: str, problems: list[str]) -> list[tuple[str, object]]:
    """Return the pairs of the outermost object, with those whose key is there before."""
    pairs: list[tuple[str, object]] = []

    def collect(found: list[tuple[str, object]]) -> dict[str, object]:
        pairs[:] = found  # The outermost object comes last.
        return dict(found)

    try:
        value = json.loads(text, object_pairs_hook=collect)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ProbeConfigError(f"the probes are no JSON: {reason}") from error
    if not isinstance(value, dict):
        problems.append("the probes are no JSON object of paths and probes")
        return []
    return pairs


def _action(fields: Fields, *, http2: bool) -> Action | None:
    match fields.present(*_HANDLERS):
        case ["httpGet"]:
            return http_get(fields.child("httpGet"), host="", http2=http2)
        case ["tcpSocket"]:
            return tcp_socket(fields.child("tcpSocket"), host="")
        case ["grpc"]:
            return grpc_health(fields.child("grpc"))
        case []:
            hint = " (an exec is the kubelet's own)" if fields.present("exec") else ""
            fields.problem(f"one of {', '.join(_HANDLERS)} is needed, there is none{hint}")
        case several:
            fields.problem(f"one of {', '.join(_HANDLERS)} is needed, there are {len(several)}")
    return None


def _short(path: str) -> str:
    return repr(path if len(path) <= 100 else f"{path[:100]}…")
