"""The `readinessProbe` of a proxy's configuration, in its JSON form.

Source: istio.networking.v1alpha3.ReadinessProbe,
https://istio.io/latest/docs/reference/config/networking/workload-group/#ReadinessProbe
"""

from collections.abc import Mapping

from mesh_probes._health_state import Thresholds
from mesh_probes._probe import Action, Exec, Probe
from mesh_probes.parsing._fields import (
    Fields,
    fields_of,
    grpc_health,
    http_get,
    raise_all,
    tcp_socket,
)

_SUBJECT = "readinessProbe"
_HANDLERS = ("httpGet", "tcpSocket", "exec", "grpc")
_DEFAULT_PERIOD_S = 10
_DEFAULT_TIMEOUT_S = 1


def parse_readiness_probe(value: Mapping[str, object]) -> tuple[Probe, Thresholds]:
    """Return what is checked, and when the application counts as healthy.

    A number that is zero or missing is the default: no delay, every 10 s, 1 s of time, 1 outcome.
    Raises `ProbeConfigError` with all that is wrong, each with the way to its field.
    """
    problems: list[str] = []
    fields = fields_of(value, subject=_SUBJECT, problems=problems)
    if fields is None:
        raise_all(problems)
        raise AssertionError("there is a problem")
    numbers = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds")
    counts = ("successThreshold", "failureThreshold")
    fields.refuse_others(*numbers, *counts, *_HANDLERS)
    delay_s, timeout_s, period_s, success, failure = map(fields.integer, (*numbers, *counts))
    action = _action(fields)
    raise_all(problems)
    if action is None:
        raise AssertionError("an action without a problem")
    return (
        Probe(action=action, timeout_s=timeout_s or _DEFAULT_TIMEOUT_S),
        Thresholds(
            initial_delay_s=delay_s,
            period_s=period_s or _DEFAULT_PERIOD_S,
            success=success or 1,
            failure=failure or 1,
        ),
    )


def _action(fields: Fields) -> Action | None:
    match fields.present(*_HANDLERS):
        case ["httpGet"]:
            child = fields.child("httpGet")
            child.refuse_others("path", "port", "host", "scheme", "httpHeaders")
            return http_get(child, host=child.host())
        case ["tcpSocket"]:
            child = fields.child("tcpSocket")
            child.refuse_others("host", "port")
            return tcp_socket(child, host=child.host())
        case ["grpc"]:
            child = fields.child("grpc")
            child.refuse_others("port", "service")
            return grpc_health(child)
        case ["exec"]:
            child = fields.child("exec")
            child.refuse_others("command")
            return _exec(child)
        case found:
            how_many = len(found) or "none"
            fields.problem(f"one of {', '.join(_HANDLERS)} is needed, there is {how_many}")
    return None


def _exec(fields: Fields) -> Exec | None:
    words = fields.items("command")
    texts = tuple(word for word in words if isinstance(word, str))
    if len(texts) < len(words):
        fields.problem("exec.command holds what is no text")
        return None
    try:
        return Exec(command=texts)
    except ValueError as error:
        fields.problem(f"exec.{error}")
        return None
