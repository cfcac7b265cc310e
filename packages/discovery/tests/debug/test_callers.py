"""Which namespaces a caller may see, and how often it may ask."""

import grpc
import pytest

from mesh_discovery.serve._debug_callers import DebugCallers
from xds_server import Client, Node, Refused


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def callers(clock: Clock) -> DebugCallers:
    return DebugCallers(trust_domain="mesh.test", admins=lambda: ["istio-system"], monotonic=clock)


def client(*identities: str) -> Client[None]:
    return Client(id="1", node=Node(id="n"), identities=identities, context=None, drain_time_s=None)


def namespace_of(
    callers: DebugCallers, asking: Client[None], page: str, *, for_own_namespace: bool = False
) -> str | None:
    with callers.answering(asking, page, for_own_namespace=for_own_namespace) as namespace:
        return namespace


def code_of(callers: DebugCallers, *identities: str, page: str = "syncz") -> grpc.StatusCode:
    with pytest.raises(Refused) as refused:
        namespace_of(callers, client(*identities), page)
    return refused.value.code


def test_an_admin_may_see_all(callers: DebugCallers) -> None:
    admin = client("spiffe://mesh.test/ns/istio-system/sa/istiod")
    assert namespace_of(callers, admin, "configz") is None


def test_another_may_see_its_own_namespace(callers: DebugCallers) -> None:
    web = client("spiffe://mesh.test/ns/shop/sa/web")
    assert namespace_of(callers, web, "config_dump") == "shop"
    assert namespace_of(callers, web, "syncz", for_own_namespace=True) == "shop"
    assert code_of(callers, "spiffe://mesh.test/ns/shop/sa/web") is (
        grpc.StatusCode.PERMISSION_DENIED
    )


@pytest.mark.parametrize(
    "identities",
    [
        (),
        ("spiffe://other.test/ns/istio-system/sa/istiod",),
        ("istio-system",),
        ("spiffe://mesh.test/istio-system",),
        ("https://mesh.test/ns/istio-system/sa/istiod",),
    ],
)
def test_what_is_no_identity_of_the_mesh_is_no_proof(
    callers: DebugCallers, identities: tuple[str, ...]
) -> None:
    assert code_of(callers, *identities) is grpc.StatusCode.UNAUTHENTICATED


def test_a_namespace_has_so_many_at_once_and_more_with_time(
    callers: DebugCallers, clock: Clock
) -> None:
    web, other = (client(f"spiffe://mesh.test/ns/{each}/sa/web") for each in ("shop", "bank"))
    for _ in range(20):
        namespace_of(callers, web, "config_dump")
    assert code_of(callers, *web.identities, page="config_dump") is (
        grpc.StatusCode.RESOURCE_EXHAUSTED
    )
    namespace_of(callers, other, "config_dump")
    clock.now += 1.0
    namespace_of(callers, web, "config_dump")


def test_all_namespaces_together_have_a_bound(callers: DebugCallers) -> None:
    for number in range(100):
        namespace_of(callers, client(f"spiffe://mesh.test/ns/n{number}/sa/web"), "config_dump")
    assert code_of(callers, "spiffe://mesh.test/ns/new/sa/web", page="config_dump") is (
        grpc.StatusCode.RESOURCE_EXHAUSTED
    )


def test_a_page_that_takes_long_counts_for_many_of_its_namespace(
    callers: DebugCallers, clock: Clock
) -> None:
    web = "spiffe://mesh.test/ns/shop/sa/web"
    with callers.answering(client(web), "config_dump"):
        clock.now += 1.0

    # It counts for 40, of which 20 were at once and 2 came in its time.
    assert code_of(callers, web, page="config_dump") is grpc.StatusCode.RESOURCE_EXHAUSTED
    other = client("spiffe://mesh.test/ns/bank/sa/web")
    assert namespace_of(callers, other, "config_dump") == "bank"
    clock.now += 10.0
    assert namespace_of(callers, client(web), "config_dump") == "shop"
