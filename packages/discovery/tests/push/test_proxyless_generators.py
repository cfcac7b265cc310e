"""Which changes are pushed to gRPC programs without an Envoy, which ask for everything by name."""

from collections.abc import Callable

from documents import Documents, entry
from envoy_config import Proxy
from envoy_config.changes import difference
from mesh_ca.testing import throwaway_authority
from mesh_discovery.push._generators import generators
from mesh_discovery.push._proxy_configs import trust_bundle_changed
from mesh_discovery.push._served_context import ServedContext
from mesh_model import MeshModel
from proxies import proxy, proxyless
from xds_server import Client, Generated, Node, PushRequest, Watch, type_urls

Build = Callable[..., MeshModel]
ROOT_PEM = throwaway_authority().root_pem
GREETER = "outbound|50051||greeter.shop.svc.cluster.local"
INBOUND = "xds.istio.io/grpc/lds/inbound/0.0.0.0:50051"
WATCHES = {
    type_urls.LISTENER: frozenset({"greeter:50051", INBOUND}),
    type_urls.ROUTE: frozenset({GREETER}),
    type_urls.CLUSTER: frozenset({GREETER, "outbound|50051||other.shop.svc.cluster.local"}),
    type_urls.ENDPOINT: frozenset({GREETER, "outbound|50051||other.shop.svc.cluster.local"}),
}


def service(
    name: str, endpoints: str, *, ports: str = "{number: 50051, name: grpc, protocol: GRPC}"
) -> str:
    return entry(
        name,
        f"hosts: [{name}.shop.svc.cluster.local], resolution: STATIC, "
        f"ports: [{ports}], endpoints: [{endpoints}]",
        namespace="shop",
    )


GREETS = service("greeter", "{address: 10.0.0.1, serviceAccount: greeter}")
OTHER = service("other", "{address: 10.0.0.9}")


def pushed(
    served: ServedContext, push: PushRequest | None, of: Proxy | None = None
) -> dict[str, set[str]]:
    """Which resources a push has, by the end of their type URL; without those that have none."""
    program = of or proxyless()
    client = Client(id="1", node=Node(id=program.id), identities=(), context=program)
    by_type = generators(served, bundle_pem=lambda: ROOT_PEM)
    found: dict[str, set[str]] = {}
    for url, names in WATCHES.items():
        watch = Watch(type_url=url, names=names)
        generated: Generated | None = by_type[url].generate(client, watch, push)
        if generated is not None:
            found[url.rpartition(".")[2]] = {each.name for each in generated.resources}
    return found


def changed(served: ServedContext, model: MeshModel) -> PushRequest:
    request = difference(served.pending, model)
    assert request is not None
    served.pending = model
    served.build(request)
    return request


def test_each_type_is_answered_by_the_names_asked_for(model_of: Build) -> None:
    served = ServedContext(model_of(GREETS, OTHER))

    assert pushed(served, None) == {
        "Listener": {"greeter:50051", INBOUND},
        "RouteConfiguration": {GREETER},
        "Cluster": WATCHES[type_urls.CLUSTER],
        "ClusterLoadAssignment": WATCHES[type_urls.ENDPOINT],
    }


def test_an_endpoint_s_change_reaches_those_who_call_its_service(model_of: Build) -> None:
    """Clusters are looked at as well: the endpoint may be the first that takes only TLS."""
    served = ServedContext(model_of(GREETS, OTHER))
    two = service("greeter", "{address: 10.0.0.2, serviceAccount: greeter}")
    caller = proxyless("10.0.1.1")

    push = changed(served, model_of(two, OTHER))

    assert push.incremental
    assert pushed(served, push, caller) == {
        "Cluster": WATCHES[type_urls.CLUSTER],
        "ClusterLoadAssignment": {GREETER},
    }
    assert "Listener" in pushed(served, push), "its own endpoint went"


def test_a_service_that_goes_takes_listeners_and_clusters_along(model_of: Build) -> None:
    served = ServedContext(model_of(GREETS, OTHER))

    push = changed(served, model_of(OTHER))

    assert pushed(served, push) == {
        "Listener": set(),
        "RouteConfiguration": set(),
        "Cluster": WATCHES[type_urls.CLUSTER] - {GREETER},
        "ClusterLoadAssignment": set(),
    }


def test_a_policy_is_pushed_in_all_but_routes(model_of: Build, yaml: Documents) -> None:
    served = ServedContext(model_of(GREETS, OTHER))

    push = changed(served, model_of(GREETS, OTHER, yaml.peer_authentication("STRICT")))

    assert pushed(served, push).keys() == {"Listener", "Cluster", "ClusterLoadAssignment"}


def test_another_service_s_change_and_new_roots_are_not_pushed(model_of: Build) -> None:
    served = ServedContext(model_of(GREETS, OTHER))
    third = service("third", "{address: 10.0.0.8}")

    push = changed(served, model_of(GREETS, OTHER, third))

    found = pushed(served, push)
    assert found.keys() == {"Listener"}, "a name asked for may be of the new service"
    assert pushed(served, trust_bundle_changed()) == {}


def test_envoys_beside_them_get_what_envoys_get(model_of: Build) -> None:
    served = ServedContext(model_of(GREETS))

    found = pushed(served, None, proxy())

    assert "PassthroughCluster" in found["Cluster"]
    assert "greeter:50051" not in found["Listener"]
