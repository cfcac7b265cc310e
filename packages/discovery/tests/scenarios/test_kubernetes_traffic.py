"""Traffic to services of a Kubernetes cluster, and to workloads beside it."""

from documents import entry, workload
from planes import eventually
from registering import connected, shown
from scenarios import MeshEnvoy, Scene

SERVICE = """\
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: b}}
spec:
  clusterIP: {ip}
  ports: [{{name: http, port: 80, targetPort: 8080, protocol: TCP}}]
  selector: {{app: {name}}}
"""
SLICE = """\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-1
  namespace: b
  labels: {{kubernetes.io/service-name: {name}}}
addressType: IPv4
ports: [{{name: http, port: 8080, protocol: TCP}}]
endpoints: [{endpoints}]
"""
ALIAS = """\
apiVersion: v1
kind: Service
metadata: {name: old, namespace: b}
spec:
  type: ExternalName
  externalName: s.b.svc.cluster.local
  ports: [{name: http, port: 80}]
"""


def endpoint(address: str, *, ready: bool = True, hostname: str = "") -> str:
    named = f", hostname: {hostname}" if hostname else ""
    return f"{{addresses: [{address}], conditions: {{ready: {str(ready).lower()}}}{named}}}"


async def versions(client: MeshEnvoy, url: str, count: int = 10) -> set[str]:
    return {(await client.get(url)).version for _ in range(count)}


async def test_a_service_of_a_cluster_is_reached_at_its_ready_endpoints_by_all_its_names(
    scene: Scene,
) -> None:
    v1, v2 = await scene.echo("v1"), await scene.echo("v2")
    ready = ", ".join(endpoint(each.address) for each in (v1, v2))
    await scene.apply(
        service=SERVICE.format(name="s", ip="10.9.0.1"),
        slice=SLICE.format(name="s", endpoints=ready),
        alias=ALIAS,
    )
    client = await scene.sidecar("c", namespace="a", service_account="c")

    assert await versions(client, "http://s.b/") == {"v1", "v2"}
    assert await versions(client, "http://old.b.svc.cluster.local/") == {"v1", "v2"}

    unready = f"{endpoint(v1.address)}, {endpoint(v2.address, ready=False)}"
    await scene.apply(slice=SLICE.format(name="s", endpoints=unready))

    assert await versions(client, "http://s.b/") == {"v1"}


async def test_a_headless_service_is_balanced_where_nothing_is_intercepted(scene: Scene) -> None:
    v1, v2 = await scene.echo("v1"), await scene.echo("v2")
    pods = f"{endpoint(v1.address, hostname='s-0')}, {endpoint(v2.address, hostname='s-1')}"
    await scene.apply(
        service=SERVICE.format(name="s", ip="None"), slice=SLICE.format(name="s", endpoints=pods)
    )
    client = await scene.sidecar("c", namespace="a", service_account="c")

    assert await versions(client, "http://s.b/") == {"v1", "v2"}


async def test_a_name_is_looked_up_where_a_service_has_no_endpoints(scene: Scene) -> None:
    echo = await scene.echo("local", address="127.0.0.1", port=scene.port())
    await scene.apply(
        service=entry(
            "local",
            "hosts: [localhost], resolution: DNS, "
            f"ports: [{{number: 80, name: http, protocol: HTTP, targetPort: {echo.port}}}]",
            namespace="b",
        )
    )
    client = await scene.sidecar("c", namespace="a", service_account="c")

    async def answered() -> bool:
        answer = await client.get("http://localhost/")
        return answer.status == 200 and answer.version == "local"

    await eventually(answered, what="the name being looked up")


HEALTH = """\
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata:
  name: {name}
  namespace: b
  annotations: {{proxy.istio.io/health-checks-enabled: "true"}}
spec: {{address: {address}, labels: {{app: s}}}}
status:
  conditions: [{{type: Healthy, status: "{healthy}"}}]
"""
SELECTS = entry(
    "s",
    "hosts: [s.b.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, "
    "ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}], "
    "workloadSelector: {labels: {app: s}}",
    namespace="b",
)


async def test_selected_workloads_are_reached_as_long_as_they_are_healthy(scene: Scene) -> None:
    v1, v2 = await scene.echo("v1"), await scene.echo("v2")
    await scene.apply(
        service=SELECTS,
        v1=workload("v1", f"address: {v1.address}, labels: {{app: s}}", namespace="b"),
        v2=HEALTH.format(name="v2", address=v2.address, healthy="True"),
    )
    client = await scene.sidecar("c", namespace="a", service_account="c")

    assert await versions(client, "http://s.b/") == {"v1", "v2"}

    await scene.apply(v2=HEALTH.format(name="v2", address=v2.address, healthy="False"))

    assert await versions(client, "http://s.b/") == {"v1"}


GROUP = """\
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: vms, namespace: b}
spec:
  template: {labels: {app: s}, serviceAccount: s}
"""


async def test_a_workload_that_registers_itself_is_reached_in_mutual_tls(scene: Scene) -> None:
    await scene.apply(service=SELECTS, group=GROUP)
    client = await scene.sidecar("c", namespace="a", service_account="c")
    assert (await client.get("http://s.b/")).status == 503

    server = await scene.sidecar("vm", namespace="b", service_account="s")
    await scene.echo("vm", address=server.app_address)

    async def reached() -> bool:
        return (await client.get("http://s.b/")).status == 200

    async with connected(
        scene.plane.secure_grpc,
        server.address,
        namespace="b",
        credentials=shown(scene.plane.authority, "b", "s"),
        metadata={"AUTO_REGISTER_GROUP": "vms"},
    ):
        await eventually(reached, what="the registered workload")
        answer = await client.get("http://s.b/")
    assert answer.version == "vm"
    assert "URI=spiffe://cluster.local/ns/a/sa/c" in answer.seen.headers["x-forwarded-client-cert"]


async def test_a_wildcard_is_looked_up_by_the_host_of_each_request(scene: Scene) -> None:
    port = scene.port()
    echo = await scene.echo("local", address="127.0.0.1", port=port)
    await scene.apply(
        service=entry(
            "wild",
            "hosts: ['*.localhost'], resolution: DYNAMIC_DNS, "
            f"ports: [{{number: {port}, name: http, protocol: HTTP}}]",
            namespace="b",
        )
    )
    client = await scene.sidecar("c", namespace="a", service_account="c")

    async def answered() -> bool:
        return (await client.get(f"http://one.localhost:{port}/")).status == 200

    await eventually(answered, what="the host being looked up")
    assert echo.requests[-1].headers["host"] == f"one.localhost:{port}"
    assert await client.stat(f"cluster.outbound|{port}||*.localhost;.upstream_cx_total") >= 1


async def test_a_wildcard_is_looked_up_by_the_name_in_tls(scene: Scene) -> None:
    port = scene.port()
    echo = await scene.echo("local", address="127.0.0.1", port=port, tls=scene.tls("one.localhost"))
    await scene.apply(
        service=entry(
            "wild",
            "hosts: ['*.localhost'], resolution: DYNAMIC_DNS, "
            f"ports: [{{number: {port}, name: tls, protocol: TLS}}]",
            namespace="b",
        )
    )
    client = await scene.sidecar("c", namespace="a", service_account="c")

    answer = await client.get(f"https://one.localhost:{port}/", ssl=False)

    assert (answer.status, answer.version) == (200, "local")
    assert echo.server_names == ["one.localhost"]
