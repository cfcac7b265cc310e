"""Endpoints of other networks, reached by the gateways there."""

from scenarios import MeshEnvoy, Scene

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec:
  hosts: [s.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 8080}}]
  endpoints: [{endpoints}]
"""
GATEWAY = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: gw, namespace: b}}
spec:
  selector: {{istio: ingressgateway}}
  servers:
  - port: {{number: {port}, name: tls, protocol: TLS}}
    hosts: ["*.local"]
    tls: {{mode: AUTO_PASSTHROUGH}}
"""
NETWORKS = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshNetworks
spec:
  networks:
    n2:
      gateways: [{{address: {address}, port: {port}}}]
"""
N1, N2 = {"NETWORK": "n1"}, {"NETWORK": "n2"}


async def weights(client: MeshEnvoy) -> dict[str, int]:
    """Return the addresses that a client has for the service, with their weights."""
    clusters = await client.envoy.get("/clusters?format=json")
    return {
        each["address"]["socket_address"]["address"]: each["weight"]
        for cluster in clusters["cluster_statuses"]
        if cluster["name"] == "outbound|80||s.b.svc.cluster.local"
        for each in cluster["host_statuses"]
    }


async def test_endpoints_of_another_network_have_its_gateway_in_their_place(scene: Scene) -> None:
    gateway = "10.9.9.9"
    await scene.apply(
        service=SERVICE.format(
            endpoints="{address: 10.1.0.1, network: n1}, "
            "{address: 10.2.0.1, network: n2, serviceAccount: s}, "
            "{address: 10.2.0.2, network: n2, serviceAccount: s}, "
            "{address: 10.2.0.3, network: n2}"
        ),
        networks=NETWORKS.format(address=gateway, port=15443),
    )
    here = await scene.sidecar("c", namespace="a", service_account="c", metadata=N1)
    there = await scene.sidecar("d", namespace="a", service_account="d", metadata=N2)

    # A gateway passes on mutual TLS alone: the endpoint without it is not among the two.
    assert await weights(here) == {"10.1.0.1": 1, gateway: 2}
    # No gateway leads into n1.
    own = {"10.2.0.1": 1, "10.2.0.2": 1, "10.2.0.3": 1}
    assert await weights(there) == {"10.1.0.1": 1, **own}


async def test_endpoints_of_another_network_are_reached_by_its_gateway(scene: Scene) -> None:
    router = await scene.router(metadata=N2)
    server, port = scene.network.address(), scene.port()
    await scene.apply(
        service=SERVICE.format(endpoints=f"{{address: {server}, network: n2, serviceAccount: s}}"),
        gateway=GATEWAY.format(port=port),
        networks=NETWORKS.format(address=router.outbound_address, port=port),
    )
    s = await scene.sidecar("s", namespace="b", service_account="s", address=server, metadata=N2)
    await scene.echo("far", address=s.app_address)
    client = await scene.sidecar("c", namespace="a", service_account="c", metadata=N1)

    answer = await client.get("http://s.b/")

    assert answer.version == "far"
    assert "URI=spiffe://cluster.local/ns/a/sa/c" in answer.seen.headers["x-forwarded-client-cert"]
    passed_on = "cluster.outbound_.80_._.s.b.svc.cluster.local;.upstream_cx_total"
    assert await router.stat(passed_on) == 1
