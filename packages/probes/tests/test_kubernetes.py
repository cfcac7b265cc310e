"""The probes that Istio's injection hands over in ISTIO_KUBE_APP_PROBERS."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_probes import (
    GrpcHealth,
    HttpGet,
    Probe,
    ProbeConfigError,
    TcpSocket,
    parse_kubernetes_probers,
)


def problems_of(value: object) -> tuple[str, ...]:
    text = value if isinstance(value, str) else json.dumps(value)
    with pytest.raises(ProbeConfigError) as caught:
        parse_kubernetes_probers(text)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


def test_each_path_has_its_probe() -> None:
    text = json.dumps(
        {
            "/app-health/app/livez": {
                "httpGet": {
                    "path": "/live",
                    "port": 8080,
                    "host": "for.the.kubelet",
                    "scheme": "HTTPS",
                    "httpHeaders": [{"name": "X-A", "value": "1"}, {"name": "Host", "value": "b"}],
                },
                "timeoutSeconds": 5,
                "periodSeconds": 10,
            },
            "/app-health/app/readyz": {"tcpSocket": {"port": 81}, "timeoutSeconds": 0},
            "/app-health/b/startupz": {"grpc": {"port": 82, "service": None}, "httpGet": None},
            "/app-lifecycle/app/prestopz": {"httpGet": {"port": 83}},
        }
    )
    assert parse_kubernetes_probers(text, http2=True) == {
        "/app-health/app/livez": Probe(
            action=HttpGet(
                port=8080,
                path="/live",
                scheme="https",
                headers=(("X-A", "1"), ("Host", "b")),
                http2=True,
            ),
            timeout_s=5,
        ),
        "/app-health/app/readyz": Probe(action=TcpSocket(port=81), timeout_s=1),
        "/app-health/b/startupz": Probe(action=GrpcHealth(port=82), timeout_s=1),
        "/app-lifecycle/app/prestopz": Probe(action=HttpGet(port=83), timeout_s=3600),
    }


@pytest.mark.parametrize("text", ["", " \n", "{}"])
def test_no_probers_are_none(text: str) -> None:
    assert parse_kubernetes_probers(text) == {}


LIVE = "/app-health/app/livez"


def test_all_problems_are_reported_at_once() -> None:
    probers: dict[str, object] = {
        "/app-health/app/live": {"tcpSocket": {"port": 1}},
        "/app-health/app/livez\n": {"tcpSocket": {"port": 1}},
        "/app-health//livez": {"tcpSocket": {"port": 1}},
        "/app-health/none/livez": {"timeoutSeconds": -1},
        "/app-health/exec/livez": {"exec": {"command": ["true"]}},
        "/app-health/two/livez": {"tcpSocket": {"port": 1}, "grpc": {"port": 1}},
        "/app-health/name/livez": {"httpGet": {"port": "http", "scheme": "FTP", "path": 3}},
        "/app-health/high/livez": {"tcpSocket": {"port": 65536}},
        "/app-health/true/livez": {"grpc": {"port": True}},
        "/app-health/lost/livez": {"grpc": {}},
        "/app-health/list/livez": [],
        "/app-health/text/livez": {"grpc": "82"},
        "/app-health/bad/livez": {
            "httpGet": {"port": 1, "httpHeaders": [{"name": "a b", "value": "c\n"}, {"name": "d"}]}
        },
    }
    wrong_path = (
        "the path is neither /app-health/CONTAINER/ with livez, readyz or startupz, nor"
        " /app-lifecycle/CONTAINER/ with prestopz or poststartz"
    )
    one_of = "one of httpGet, tcpSocket, grpc is needed"
    a_header = "in httpGet.httpHeaders, a header is named 'a b', which is no name of a header"
    a_port = "an integer from 1 to 65535 is needed"
    assert problems_of(probers) == (
        f"'/app-health/app/live': {wrong_path}",
        rf"'/app-health/app/livez\n': {wrong_path}",
        f"'/app-health//livez': {wrong_path}",
        "/app-health/none/livez: timeoutSeconds is -1, an integer from 0 to 2147483647 is needed",
        f"/app-health/none/livez: {one_of}, there is none",
        f"/app-health/exec/livez: {one_of}, there is none (an exec is the kubelet's own)",
        f"/app-health/two/livez: {one_of}, there are 2",
        f"/app-health/name/livez: httpGet.port is 'http', {a_port}",
        "/app-health/name/livez: the scheme of httpGet is 'ftp', HTTP or HTTPS is needed",
        "/app-health/name/livez: httpGet.path is 3, text is needed",
        f"/app-health/high/livez: tcpSocket.port is 65536, {a_port}",
        f"/app-health/true/livez: grpc.port is True, {a_port}",
        f"/app-health/lost/livez: grpc.port is missing, {a_port}",
        "/app-health/list/livez: it is list, an object is needed",
        "/app-health/text/livez: grpc is '82', an object is needed",
        f"/app-health/bad/livez: {a_header}",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "the probes are no JSON: "),
        ("[" * 100_000, "the probes are no JSON: it is nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "the probes are no JSON: "),
        ("[]", "the probes are no JSON object of paths and probes"),
        ("null", "the probes are no JSON object of paths and probes"),
        (
            f'{{"{LIVE}": {{"grpc": {{"port": 1}}}}, "{LIVE}": {{"grpc": {{"port": 2}}}}}}',
            f"{LIVE}: there are two probes with this path",
        ),
        (
            f'{{"{LIVE}": {{"httpGet": {{"port": 1, "path": "\\ud800"}}}}}}',
            rf"{LIVE}: httpGet.path is '\ud800', which holds half a character",
        ),
    ],
)
def test_what_is_no_object_of_probes_is_reported(text: str, problem: str) -> None:
    (found,) = problems_of(text)
    assert found.startswith(problem)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["httpGet", "tcpSocket", "grpc", "port", "path", "scheme", "httpHeaders"]
            )
            | st.sampled_from(["name", "value", "service", "timeoutSeconds", "host"]),
            children,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_value_is_a_probe_or_a_problem(value: object) -> None:
    problems: tuple[str, ...] = ()
    probes: Mapping[str, Probe] = {}
    try:
        probes = parse_kubernetes_probers(json.dumps({LIVE: value}))
    except ProbeConfigError as error:
        problems = error.problems
    assert bool(probes) is not bool(problems)
    assert all(problem.startswith(f"{LIVE}: ") for problem in problems)
