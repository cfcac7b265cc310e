"""Whose configuration a stream may have."""

import grpc
import pytest

from istio_config.kinds.mesh_config import InterceptionMode, MeshConfigSpec, whole_seconds
from mesh_ca import Authenticator, Caller, Credentials, NotAuthenticated, StorageError
from mesh_ca.testing import FixedAuthenticator
from mesh_configfile import Duration
from mesh_discovery.serve._admission import ProxyAdmission
from xds_server import JSON, Node, Peer, Refused

NODE = Node(
    id="sidecar~10.0.0.1~web.shop~shop.svc.cluster.local", metadata={"SERVICE_ACCOUNT": "web"}
)
TLS = Peer(address="ipv4:10.0.0.1:1", encrypted=True)


def gate(authenticator: Authenticator) -> ProxyAdmission:
    return ProxyAdmission(authenticator, domain_suffix="cluster.local")


async def test_a_workload_is_admitted_with_its_identity() -> None:
    identity = "spiffe://cluster.local/ns/shop/sa/web"

    admission = await gate(FixedAuthenticator("istiod.dns", identity))(NODE, TLS)

    assert admission.identities == ("istiod.dns", identity)
    assert admission.context.namespace == "shop"


@pytest.mark.parametrize(
    "identity",
    [
        "spiffe://cluster.local/ns/other/sa/web",
        "spiffe://cluster.local/ns/shop/sa/other",
        "spiffe://cluster.local/ns/shop/sa/web/more",
        "spiffe://cluster.local/shop/web",
        "spiffe://Cluster.local/ns/shop/sa/web",
        "spiffe://cluster.local:80/ns/shop/sa/web",
        "spiffe://admin@cluster.local/ns/shop/sa/web",
        "shop.web",
    ],
)
async def test_another_workload_is_refused(identity: str) -> None:
    with pytest.raises(Refused) as refused:
        await gate(FixedAuthenticator(identity))(NODE, TLS)

    assert refused.value.code is grpc.StatusCode.PERMISSION_DENIED
    assert refused.value.message == (
        f"the caller's identity is not of namespace shop and service account web, it is {identity}"
    )


async def test_the_service_account_counts_only_if_the_node_names_one() -> None:
    node = Node(id=NODE.id)

    admission = await gate(FixedAuthenticator("spiffe://x/ns/shop/sa/any"))(node, TLS)

    assert admission.context.service_account == ""


async def test_over_tls_someone_without_proof_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        await gate(FixedAuthenticator())(NODE, TLS)

    assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED
    assert refused.value.message == "request authenticate failure"


async def test_what_may_be_said_of_the_reason_reaches_the_caller() -> None:
    class Expired:
        async def authenticate(self, credentials: Credentials) -> Caller:  # noqa: ARG002
            reason = "token has expired"
            raise NotAuthenticated(f"{reason}, of shop/web", public_reason=reason)

    with pytest.raises(Refused) as refused:
        await gate(Expired())(NODE, TLS)

    assert refused.value.message == "request authenticate failure: token has expired"


async def test_plaintext_callers_are_believed() -> None:
    class Unasked:
        async def authenticate(self, credentials: Credentials) -> Caller:
            raise NotAuthenticated(f"asked for {credentials}")

    admission = await gate(Unasked())(NODE, Peer(address="ipv4:127.0.0.1:1"))

    assert admission.identities == ()


async def test_an_unusable_key_set_is_no_fault_of_the_caller() -> None:
    class Broken:
        async def authenticate(self, credentials: Credentials) -> Caller:  # noqa: ARG002
            raise StorageError("no keys")

    with pytest.raises(Refused) as refused:
        await gate(Broken())(NODE, TLS)

    assert refused.value.code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("node", "code"),
    [
        (Node(id="x"), grpc.StatusCode.INVALID_ARGUMENT),
        (
            Node(id=NODE.id, metadata={"INTERCEPTION_MODE": "SIPHON"}),
            grpc.StatusCode.FAILED_PRECONDITION,
        ),
    ],
)
async def test_a_node_that_cannot_be_served_is_refused_with_the_reason(
    node: Node, code: grpc.StatusCode
) -> None:
    with pytest.raises(Refused) as refused:
        await gate(FixedAuthenticator("spiffe://x/ns/shop/sa/web"))(node, TLS)

    assert refused.value.code is code


@pytest.mark.parametrize(
    ("metadata", "drain_time_s"),
    [
        ({"PROXY_CONFIG": {"drainDuration": "7s"}}, 7.0),
        ({"PROXY_CONFIG": {"drainDuration": "7.2s"}}, 8.0),
        ({"PROXY_CONFIG": {"drainDuration": "1m200ms"}}, 61.0),
        ({"PROXY_CONFIG": {"drainDuration": "soon"}}, 20.0),
        ({"PROXY_CONFIG": {}}, 20.0),
        ({"PROXY_CONFIG": "x"}, 20.0),
        ({}, 20.0),
    ],
)
async def test_what_was_removed_stays_while_the_proxys_own_envoy_drains(
    metadata: dict[str, JSON], drain_time_s: float
) -> None:
    admit = ProxyAdmission(FixedAuthenticator(), domain_suffix="x", drain_time=lambda: Duration(20))

    admission = await admit(Node(id=NODE.id, metadata=metadata), Peer(address="ipv4:1:1"))

    assert admission.drain_time_s == drain_time_s


def test_proxies_and_mesh_that_say_nothing_drain_as_long_as_agents_do_by_default() -> None:
    assert MeshConfigSpec().default_config.drain_duration == 45.0


def test_a_part_of_a_second_in_the_mesh_config_is_rounded_up() -> None:
    assert whole_seconds(Duration(20.5)) == 21.0


async def test_a_sidecar_that_says_nothing_has_the_mesh_s_interception_mode() -> None:
    admit = ProxyAdmission(
        FixedAuthenticator("spiffe://x/ns/shop/sa/web"),
        domain_suffix="x",
        interception=lambda: InterceptionMode.REDIRECT,
    )

    async def mode(kind: str, metadata: dict[str, JSON], peer: Peer = TLS) -> InterceptionMode:
        node_id = NODE.id.replace("sidecar", kind)
        return (await admit(Node(id=node_id, metadata=metadata), peer)).context.interception

    assert await mode("sidecar", {}) is InterceptionMode.REDIRECT
    assert await mode("sidecar", {"INTERCEPTION_MODE": "NONE"}) is InterceptionMode.NONE
    assert await mode("router", {}) is InterceptionMode.NONE
    assert await mode("sidecar", {"GENERATOR": "grpc"}) is InterceptionMode.NONE
    stranger = Peer(address="ipv4:127.0.0.1:1")
    assert await mode("sidecar", {}, stranger) is InterceptionMode.NONE
