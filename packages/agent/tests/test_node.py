import pytest
from hypothesis import given
from hypothesis import strategies as st

from envoy_supervisor import JSON
from mesh_agent._node import (
    NodeIdentity,
    PodInfo,
    cluster_name,
    locality,
    node_metadata,
    parse_downward_file,
)

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
        proxy_metadata={"ISTIO_META_FROM_CONFIG": "c", "ISTIO_META_BOTH": "c"},
        pod=pod or PodInfo(),
        version="1.2.3",
    )


def test_node_id_has_four_parts() -> None:
    assert IDENTITY.node_id == "sidecar~127.0.1.1~web-1.shop~shop.svc.cluster.local"


def test_metadata_says_what_the_agent_knows_and_keeps_what_it_is_given() -> None:
    metadata = metadata_of({"ISTIO_META_BOTH": "e", "ISTIO_META_INTERCEPTION_MODE": "NONE"})
    assert metadata == {
        "FROM_CONFIG": "c",
        "BOTH": "e",
        "INTERCEPTION_MODE": "NONE",
        "ISTIO_VERSION": "1.2.3",
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
        PodInfo(labels={"tier": "front", "pod-template-hash": "abc"}),
    )
    assert (metadata["LIST"], metadata["APP"]) == ([1, 2], "x")
    assert metadata["LABELS"] == {"tier": "front", "app": "web"}


@pytest.mark.parametrize("text", ["{", "[1]", '"x"'])
def test_a_json_variable_that_cant_be_used_is_left_out(text: str) -> None:
    assert metadata_of({"ISTIO_METAJSON_X": text}) == metadata_of({})


@pytest.mark.parametrize(
    ("service_cluster", "labels", "workload", "expected"),
    [
        ("mine", {"app": "web"}, "w", "mine"),
        ("istio-proxy", {"app": "web"}, "w", "web.shop"),
        ("istio-proxy", {"app.kubernetes.io/name": "web2"}, "w", "web2.shop"),
        ("istio-proxy", {}, "w", "w.shop"),
        ("istio-proxy", {}, "", "istio-proxy.shop"),
    ],
)
def test_cluster_name_comes_from_the_best_source_there_is(
    service_cluster: str, labels: dict[str, str], workload: str, expected: str
) -> None:
    name = cluster_name(
        IDENTITY, service_cluster=service_cluster, pod=PodInfo(labels=labels), workload=workload
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
