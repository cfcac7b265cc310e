"""A router of the Gateway API, and services behind it, for tests with real Envoys."""

from dataclasses import dataclass

from scenarios import Echo, MeshEnvoy, Scene, TcpEcho

ROUTER_LABEL = "gateway.networking.k8s.io/gateway-name"

SERVICE = """
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  hosts: [{name}.{namespace}.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: {protocol}, protocol: {protocol}, targetPort: {port}}}]
  endpoints: [{{address: {address}}}]
"""

API = "apiVersion: gateway.networking.k8s.io/v1\n"


def service(
    name: str, echo: Echo | TcpEcho, *, namespace: str = "b", protocol: str | None = None
) -> str:
    return SERVICE.format(
        name=name,
        namespace=namespace,
        protocol=protocol or ("http" if isinstance(echo, Echo) else "tcp"),
        port=echo.port,
        address=echo.address,
    )


def alias(name: str, target: str, protocol: str = "http") -> str:
    """Return a service of type ExternalName of namespace b that stands for another there."""
    return (
        f"apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: b}}\n"
        f"spec: {{type: ExternalName, externalName: {target}.b.svc.cluster.local, "
        f"ports: [{{name: {protocol}, port: 80}}]}}\n"
    )


def gateway(*listeners: str, namespace: str = "b") -> str:
    return (
        f"{API}kind: Gateway\nmetadata: {{name: gw, namespace: {namespace}}}\n"
        f"spec: {{gatewayClassName: istio, listeners: [{', '.join(listeners)}]}}\n"
    )


def route(
    rules: str,
    *,
    kind: str = "HTTPRoute",
    name: str = "r",
    namespace: str = "b",
    hostnames: str = "",
    parent: str = "{name: gw}",
) -> str:
    version = API if kind != "TCPRoute" else API.replace("v1", "v1alpha2")
    hosts = f"hostnames: [{hostnames}], " if hostnames else ""
    return (
        f"{version}kind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
        f"spec: {{parentRefs: [{parent}], {hosts}rules: [{rules}]}}\n"
    )


@dataclass(frozen=True)
class Site:
    """A gateway with an HTTP listener, and two services a and b, each an echo server."""

    router: MeshEnvoy
    port: int
    a: Echo
    b: Echo

    def url(self, path: str = "/", host: str = "shop.example") -> str:
        return f"http://{host}:{self.port}{path}"

    async def version(self, path: str = "/", **headers: str) -> str:
        """Return the version of the service that answered, or else the status."""
        answer = await self.router.get(self.url(path), headers=headers)
        return answer.version or str(answer.status)


async def opened_site(scene: Scene, routes: str, other: str | None = None) -> Site:
    """Start a router of the Gateway b/gw, and the services a and b."""
    a, b = await scene.echo("a"), await scene.echo("b")
    port = scene.port()
    await scene.apply(
        a=service("a", a),
        b=service("b", b),
        gateway=gateway(f"{{name: http, port: {port}, protocol: HTTP}}"),
        routes=routes,
        other=other,
    )
    router = await scene.router(namespace="b", labels={ROUTER_LABEL: "gw"})
    return Site(router, port, a, b)
