"""A service s.b behind a sidecar that enforces policies, called with and without mutual TLS."""

from dataclasses import dataclass

from scenarios import Answer, Echo, MeshEnvoy, Scene, TcpEcho

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec:
  hosts: [s.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: 80, name: http, protocol: HTTP, targetPort: {http}}}
  - {{number: 9000, name: tcp, protocol: TCP, targetPort: {tcp}}}
  endpoints: [{{address: {address}, labels: {{app: s, security.istio.io/tlsMode: istio}}}}]
"""


@dataclass(frozen=True)
class Guarded:
    """S with an application for requests and one for connections, and the client C of a."""

    sidecar: MeshEnvoy
    client: MeshEnvoy
    application: Echo
    connections: TcpEcho

    async def call(self, path: str = "/", *, method: str = "GET") -> Answer:
        """Ask as C, in mutual TLS."""
        return await self.client.get(f"http://s.b{path}", method=method)

    async def plain(self, path: str = "/", *headers: str, method: str = "GET") -> int:
        """Ask S itself in plaintext, by a path that is sent as it is; return the status."""
        lines = [f"{method} {path} HTTP/1.1", "host: s.b", "connection: close", *headers, "", ""]
        address, port = self.sidecar.address, self.application.port
        line = await self.sidecar.send(port, "\r\n".join(lines).encode(), address=address)
        return int(line.split()[1])

    async def connect(self, data: bytes = b"hello\n") -> bytes:
        """Connect to the other application in plaintext; return the first line that comes."""
        port, address = self.connections.port, self.sidecar.address
        try:
            return await self.sidecar.send(port, data, address=address)
        except ConnectionError:
            return b""


async def guarded_service(scene: Scene, *, banner: bytes = b"") -> Guarded:
    """Start S with its applications, and C."""
    address, http, tcp = scene.network.address(), 8080, 9000
    await scene.apply(service=SERVICE.format(address=address, http=http, tcp=tcp))
    sidecar = await scene.sidecar(
        "s", namespace="b", service_account="s", labels={"app": "s"}, address=address
    )
    return Guarded(
        sidecar,
        await scene.sidecar("c"),
        await scene.echo("s", address=sidecar.app_address, port=http),
        await scene.tcp_echo("s", address=sidecar.app_address, port=tcp, banner=banner),
    )
