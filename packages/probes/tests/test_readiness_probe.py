"""The readinessProbe of a proxy's configuration."""

from collections.abc import Callable, Mapping

import pytest

from mesh_probes import (
    Action,
    Exec,
    GrpcHealth,
    HttpGet,
    Probe,
    ProbeConfigError,
    TcpSocket,
    Thresholds,
    parse_readiness_probe,
)


@pytest.mark.parametrize(
    ("handler", "action"),
    [
        ({"httpGet": {"port": 80}}, HttpGet(port=80)),
        (
            {
                "httpGet": {
                    "port": 80,
                    "path": "ok",
                    "host": "h.example",
                    "scheme": "https",
                    "httpHeaders": [{"name": "a", "value": "b"}],
                }
            },
            HttpGet(port=80, path="ok", host="h.example", scheme="https", headers=(("a", "b"),)),
        ),
        ({"tcpSocket": {"port": 81, "host": "::1"}}, TcpSocket(port=81, host="::1")),
        ({"exec": {"command": ["cat", "/tmp/healthy"]}}, Exec(command=("cat", "/tmp/healthy"))),
        ({"grpc": {"port": 82, "service": "s"}}, GrpcHealth(port=82, service="s")),
    ],
)
def test_each_kind_is_read_and_zero_is_the_default(
    handler: Mapping[str, object], action: Action
) -> None:
    zeros = {"initialDelaySeconds": 0, "periodSeconds": 0, "timeoutSeconds": 0}
    expected = (Probe(action=action, timeout_s=1), Thresholds(initial_delay_s=0, period_s=10))
    assert parse_readiness_probe(handler) == expected
    assert parse_readiness_probe({**handler, **zeros, "successThreshold": 0}) == expected


def test_numbers_are_read() -> None:
    assert parse_readiness_probe(
        {
            "tcpSocket": {"port": 1},
            "initialDelaySeconds": 2,
            "timeoutSeconds": 3,
            "periodSeconds": 4,
            "successThreshold": 5,
            "failureThreshold": 6,
        }
    ) == (
        Probe(action=TcpSocket(port=1), timeout_s=3),
        Thresholds(initial_delay_s=2, period_s=4, success=5, failure=6),
    )


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ProbeConfigError) as caught:
        parse_readiness_probe(
            {
                "timeout_seconds": 3,
                "periodSeconds": "4",
                "failureThreshold": -1,
                "httpGet": {"host": "a/b", "scheme": "tcp", "httpHeaders": {}},
            }
        )
    numbers = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds")
    thresholds = ("successThreshold", "failureThreshold")
    fields = (*numbers, *thresholds, "httpGet", "tcpSocket", "exec", "grpc")
    number = "an integer from 0 to 2147483647 is needed"
    assert caught.value.problems == (
        f"readinessProbe: timeout_seconds is no field; there are {', '.join(fields)}",
        f"readinessProbe: periodSeconds is '4', {number}",
        f"readinessProbe: failureThreshold is -1, {number}",
        "readinessProbe: httpGet.host is 'a/b', a name or an address is needed",
        "readinessProbe: httpGet.port is missing, an integer from 1 to 65535 is needed",
        "readinessProbe: the scheme of httpGet is 'tcp', HTTP or HTTPS is needed",
        "readinessProbe: httpGet.httpHeaders is dict, a list is needed",
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "one of httpGet, tcpSocket, exec, grpc is needed, there is none"),
        ({"exec": {"command": ["a", 1]}}, "exec.command holds what is no text"),
        ({"exec": {"command": ["a\0"]}}, r"exec.command holds 'a\x00', in which a NUL is"),
        ({"exec": {}}, "exec.command is empty, a program is needed"),
        ({"exec": {"command": "true"}}, "exec.command is 'true', a list is needed"),
    ],
)
def test_a_problem_is_a_sentence(value: Mapping[str, object], problem: str) -> None:
    with pytest.raises(ProbeConfigError) as caught:
        parse_readiness_probe(value)
    assert caught.value.problems[0] == f"readinessProbe: {problem}"


@pytest.mark.parametrize(
    "make",
    [
        lambda: HttpGet(port=0),
        lambda: HttpGet(port=1, http2=True),
        lambda: HttpGet(port=1, host="a b"),
        lambda: HttpGet(port=1, headers=(("a:", "b"),)),
        lambda: HttpGet(port=1, headers=(("a", "b\r\nc: d"),)),
        lambda: TcpSocket(port=65536),
        lambda: GrpcHealth(port=1, service="\ud800"),
        lambda: Exec(command=()),
        lambda: Probe(action=TcpSocket(port=1), timeout_s=0),
        lambda: Probe(action=TcpSocket(port=1), timeout_s=float("nan")),
        lambda: Thresholds(period_s=0),
        lambda: Thresholds(success=0),
    ],
)
def test_values_that_cannot_be_used_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"\w+ is |a header is "):
        make()
