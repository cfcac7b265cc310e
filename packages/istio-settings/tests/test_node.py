import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from istio_settings import (
    BY_APP_LABEL,
    BY_CANONICAL_NAME,
    BY_CANONICAL_NAME_AND_NAMESPACE,
    ISTIO_VERSION,
    JSON,
    NodeIdentity,
    PodInfo,
    cluster_name,
    locality,
    node_metadata,
    parse_downward_file,
    workload_labels,
)

CANONICAL = "service.istio.io/canonical-name"
IDENTITY = NodeIdentity(
    role="sidecar",
    addresses=("127.0.1.1", "::1"),
    pod_name="web-1",
    namespace="shop",
    service_account="web",
    domain="shop.svc.cluster.local",
)


def metadata_of(environ: dict[str, str], pod: PodInfo | None = None) -> dict[str, JSON]:
    return node_metadata(
        IDENTITY,
        environ=environ,
        proxy_config={"statusPort": 15020},
        pod=pod or PodInfo(),
        typed={"TYPED": True},
    )


def test_node_id_has_four_parts() -> None:
    assert IDENTITY.node_id == "sidecar~127.0.1.1~web-1.shop~shop.svc.cluster.local"


def test_metadata_says_what_the_agent_knows_and_keeps_what_it_is_given() -> None:
    metadata = metadata_of({"ISTIO_META_TYPED": "no", "ISTIO_META_INTERCEPTION_MODE": "NONE"})
    assert metadata == {
        "INTERCEPTION_MODE": "NONE",
        "ISTIO_VERSION": ISTIO_VERSION,
        "TYPED": True,
        "NAME": "web-1",
        "NAMESPACE": "shop",
        "SERVICE_ACCOUNT": "web",
        "INSTANCE_IPS": "127.0.1.1,::1",
        "LABELS": {},
        "PROXY_CONFIG": {"statusPort": 15020},
    }


def test_typed_fields_win_over_variables_of_the_same_name() -> None:
    assert metadata_of({"ISTIO_META_NAMESPACE": "other"})["NAMESPACE"] == "shop"


def test_json_variables_are_merged_and_labels_go_to_labels() -> None:
    metadata = metadata_of(
        {
            "ISTIO_METAJSON_ANYTHING": '{"LIST": [1, 2], "APP": "x"}',
            "ISTIO_METAJSON_LABELS": '{"app": "web"}',
        },
        PodInfo(labels={"tier": "web", "pod-template-hash": "abc"}),
    )
    assert (metadata["LIST"], metadata["APP"]) == ([1, 2], "x")
    assert metadata["LABELS"] == {"tier": "web", "app": "web"}


@pytest.mark.parametrize("text", ["{", "[1]", '"x"'])
def test_a_json_variable_that_cant_be_used_is_left_out(text: str) -> None:
    assert metadata_of({"ISTIO_METAJSON_X": text}) == metadata_of({})


@pytest.mark.parametrize(
    ("service_cluster", "labels", "workload", "naming", "expected"),
    [
        ("mine", {"app": "web"}, "w", BY_APP_LABEL, "mine"),
        ("istio-proxy", {"app": "web"}, "w", BY_APP_LABEL, "web.shop"),
        ("istio-proxy", {"app.kubernetes.io/name": "web2"}, "w", BY_APP_LABEL, "web2.shop"),
        ("istio-proxy", {}, "w", BY_APP_LABEL, "w.shop"),
        ("istio-proxy", {}, "", BY_APP_LABEL, "istio-proxy.shop"),
        ("istio-proxy", {"app": "web", CANONICAL: "c"}, "w", BY_CANONICAL_NAME, "c"),
        ("istio-proxy", {"app": "web"}, "w", BY_CANONICAL_NAME, "w"),
        ("istio-proxy", {CANONICAL: "c"}, "w", BY_CANONICAL_NAME_AND_NAMESPACE, "c.shop"),
    ],
)
def test_cluster_name_comes_from_the_best_source_there_is(
    service_cluster: str, labels: dict[str, str], workload: str, naming: str, expected: str
) -> None:
    name = cluster_name(
        IDENTITY, service_cluster=service_cluster, labels=labels, workload=workload, naming=naming
    )
    assert name == expected


def test_downward_files_are_read_with_their_escapes_and_odd_lines_left_out() -> None:
    text = 'app="web"\nnote="two\\nlines \\"quoted\\""\nbroken="unclosed\nnothing\nplain=x\n'
    assert parse_downward_file(text) == {
        "app": "web",
        "note": 'two\nlines "quoted"',
        "plain": "x",
    }


@given(st.text(max_size=200))
def test_no_downward_file_breaks_the_reader(text: str) -> None:
    for key, value in parse_downward_file(text).items():
        assert key
        assert isinstance(value, str)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, ("", "", "")),
        ({"istio-locality": "r.z.s"}, ("r", "z", "s")),
        ({"istio-locality": "r/z.1/s"}, ("r", "z.1", "s")),
        ({"istio-locality": "a", "topology.istio.io/locality": "r/z"}, ("r", "z", "")),
    ],
)
def test_locality_from_labels(labels: dict[str, str], expected: tuple[str, str, str]) -> None:
    assert locality(labels) == expected


@pytest.mark.parametrize(
    ("quoted", "value"),
    [
        (r'"plain"', "plain"),
        (r'""', ""),
        (r'"a=b=c"', "a=b=c"),
        (
            r'"concurrency: 2\nproxyMetadata:\n  A: \"b\"\n"',
            'concurrency: 2\nproxyMetadata:\n  A: "b"\n',
        ),
        (r'"{\"livez\": {\"path\": \"/a\\b\"}}"', '{"livez": {"path": "/a\\b"}}'),
        (r'"\a\b\f\n\r\t\v"', "\a\b\f\n\r\t\v"),
        (r'"\x00\x7f\u00a0\u2028\U0001f4a9"', "\x00\x7f\u00a0\u2028\U0001f4a9"),
        (r'"caf\xc3\xa9 \303\251"', "caf\u00e9 \u00e9"),
        (r'"stray \xff"', "stray \ufffd"),
        ('"caf\u00e9 \U0001f4a9"', "caf\u00e9 \U0001f4a9"),
        ('"\u2028\x85 stay in one line"', "\u2028\x85 stay in one line"),
    ],
)
def test_downward_values_are_read_as_go_quotes_them(quoted: str, value: str) -> None:
    assert parse_downward_file(f'before="1"\nkey={quoted}\nafter="2"\n') == {
        "before": "1",
        "key": value,
        "after": "2",
    }


@pytest.mark.parametrize(
    "quoted",
    [
        r'"\d"',
        r'"\N{BULLET}"',
        r'"\x4"',
        r'"\400"',
        r'"\u12"',
        r'"\U00110000"',
        r'"\'"',
        '"a"b"',
        '"a" "b"',
        '"a',
        '"a\\"',
    ],
)
def test_downward_values_that_go_would_not_read_are_left_out_and_named(
    quoted: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert parse_downward_file(f'key={quoted}\nnext="1"') == {"next": "1"}
    assert [record.__dict__["key"] for record in caplog.records] == ["key"]


def go_quoted(text: str) -> str:
    """Go's `%q`, as far as it matters here."""
    special = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\t": r"\t"}

    def quoted(character: str) -> str:
        code = ord(character)
        if character in special or character.isprintable():
            return special.get(character, character)
        return f"\\x{code:02x}" if code < 0x80 else f"\\U{code:08x}"

    return f'"{"".join(map(quoted, text))}"'


@given(st.dictionaries(st.from_regex(r"[a-z][a-z./-]*", fullmatch=True), st.text(), max_size=3))
def test_what_kubernetes_writes_is_read_back(values: dict[str, str]) -> None:
    file = "".join(f"{key}={go_quoted(text)}\n" for key, text in values.items())
    assert parse_downward_file(file) == values


def test_variables_of_both_kinds_are_merged_json_over_text_and_the_agents_own_over_both() -> None:
    metadata = metadata_of(
        {
            "ISTIO_META_ONE": "text",
            "ISTIO_META_TWO": "text",
            "ISTIO_METAJSON_A": '{"TWO": {"is": "json"}, "THREE": "a", "NAME": "other"}',
            "ISTIO_METAJSON_B": '{"THREE": "b"}',
            "ISTIO_META_PROXY_CONFIG": "not this",
            "OTHER_ONE": "no",
        }
    )
    assert (metadata["ONE"], metadata["TWO"], metadata["THREE"]) == ("text", {"is": "json"}, "b")
    assert (metadata["NAME"], metadata["PROXY_CONFIG"]) == ("web-1", {"statusPort": 15020})
    assert not any("OTHER" in key or "METAJSON" in key for key in metadata)


def test_a_version_that_is_given_stays() -> None:
    assert metadata_of({"ISTIO_META_ISTIO_VERSION": "9"})["ISTIO_VERSION"] == "9"


def test_labels_of_the_pod_win_over_those_of_the_machine_which_are_kept_apart() -> None:
    environ = {"ISTIO_METAJSON_LABELS": '{"app": "vm", "zone": "a", "ready": true, "n": 1}'}
    pod = PodInfo(labels={"app": "web", "pod-template-hash": "abc"})
    expected = {"app": "web", "zone": "a", "ready": "true", "n": "1"}
    assert workload_labels(environ, pod) == expected
    metadata = metadata_of(environ, pod)
    assert metadata["LABELS"] == expected
    assert metadata["STATIC_LABELS"] == {**expected, "app": "vm"}


@pytest.mark.parametrize("text", ["{", "[]", "null"])
def test_labels_that_are_no_json_object_are_none(text: str) -> None:
    assert workload_labels({"ISTIO_METAJSON_LABELS": text}, PodInfo()) == {}


@pytest.mark.parametrize(
    ("environ", "pod", "expected"),
    [
        ({"istio-locality": "vm.z"}, {}, ("vm", "z", "")),
        ({"istio-locality": "vm.z"}, {"istio-locality": "pod.z.s"}, ("pod", "z", "s")),
        (
            {"topology.istio.io/locality": "new/z"},
            {"istio-locality": "old.z"},
            ("new", "z", ""),
        ),
        ({"topology.istio.io/locality": ""}, {"istio-locality": "old.z"}, ("old", "z", "")),
    ],
)
def test_locality_comes_from_the_label_of_the_newer_name_then_of_the_older(
    environ: dict[str, str], pod: dict[str, str], expected: tuple[str, str, str]
) -> None:
    labels = workload_labels({"ISTIO_METAJSON_LABELS": json.dumps(environ)}, PodInfo(labels=pod))
    assert locality(labels) == expected


def test_the_ports_of_envoys_own_listeners_are_in_the_node() -> None:
    metadata = metadata_of(
        {
            "ENVOY_STATUS_PORT": "15022",
            "ENVOY_PROMETHEUS_PORT": "15093",
            "ENVOY_SECURE_METRICS_PORT": "15091",
            "ENVOY_SECURE_MERGED_METRICS_PORT": "0",
        }
    )
    assert {key: value for key, value in metadata.items() if key.endswith("PORT")} == {
        "ENVOY_STATUS_PORT": 15022,
        "ENVOY_PROMETHEUS_PORT": 15093,
        "ENVOY_SECURE_METRICS_PORT": 15091,
    }


@pytest.mark.parametrize("text", ["", "0", "-1", "65536", "http", "1\u0664"])
def test_a_port_that_is_none_is_not_in_the_node(text: str) -> None:
    assert metadata_of({"ENVOY_SECURE_METRICS_PORT": text}) == metadata_of({})
