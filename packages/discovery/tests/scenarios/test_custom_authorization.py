"""CUSTOM policies with a real Envoy: an external provider decides about what the rules match."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
import grpc
from envoy.service.auth.v3 import external_auth_pb2
from google.rpc import code_pb2, status_pb2

from scenarios import Echo, MeshEnvoy, Scene

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: b}}
spec:
  hosts: [{name}.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: {port}, name: http, protocol: HTTP}}]
  endpoints: [{{address: {address}, labels: {{app: {name}}}}}]
"""
MESH = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  extensionProviders:
  - name: decider
    envoyExtAuthzHttp:
      service: b/authz.b.svc.cluster.local
      port: 8080
      timeout: 5s
      pathPrefix: /check
      failOpen: {fail_open}
      includeRequestHeadersInCheck: [x-token]
      includeAdditionalHeadersInCheck: {{x-asked-by: mesh}}
      headersToUpstreamOnAllow: [x-user]
      headersToDownstreamOnDeny: [x-why]
"""
POLICY = """\
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {{name: ask, namespace: b}}
spec:
  selector: {{matchLabels: {{app: s}}}}
  action: CUSTOM
  provider: {{name: {provider}}}
  rules: [{{to: [{{operation: {{paths: ['/x*']}}}}]}}]
"""


class Asked(NamedTuple):
    """A sidecar S with an application, and the provider that decides."""

    sidecar: MeshEnvoy
    application: Echo
    decider: Echo

    async def get(self, path: str, **headers: str) -> aiohttp.ClientResponse:
        url = f"http://{self.sidecar.address}:{self.application.port}{path}"
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with aiohttp.ClientSession() as session, session.get(url, headers=given) as answer:
            await answer.read()
            return answer


async def asked(scene: Scene) -> Asked:
    address = scene.network.address()
    decider = await scene.echo("decider")
    await scene.apply(
        service=SERVICE.format(name="s", address=address, port=8080),
        authz=SERVICE.format(name="authz", address=decider.address, port=decider.port),
        mesh_config=MESH.format(fail_open="false"),
    )
    sidecar = await scene.sidecar(
        "s", namespace="b", service_account="s", labels={"app": "s"}, address=address
    )
    application = await scene.echo("application", address=sidecar.app_address)
    return Asked(sidecar, application, decider)


async def test_provider_decides_about_the_paths_of_the_rules_and_is_not_asked_about_others(
    scene: Scene,
) -> None:
    found = await asked(scene)
    await scene.apply(policy=POLICY.format(provider="decider"))

    assert (await found.get("/other")).status == 200
    assert found.decider.count == 0

    found.decider.answer(headers={"x-user": "u"})
    allowed = await found.get("/x1", x_token="t", x_secret="s")
    assert allowed.status == 200
    (question,) = found.decider.requests
    assert question.path == "/check/x1"
    assert question.headers["x-token"] == "t"
    assert question.headers["x-asked-by"] == "mesh"
    assert "x-secret" not in question.headers
    assert found.application.requests[-1].headers["x-user"] == "u"

    found.decider.answer(status=403, headers={"x-why": "no"})
    before = found.application.count
    denied = await found.get("/x2")
    assert (denied.status, denied.headers["x-why"]) == (403, "no")
    assert found.application.count == before
    assert (await found.get("/other")).status == 200


async def test_without_an_answer_requests_are_denied_unless_the_provider_fails_open(
    scene: Scene,
) -> None:
    found = await asked(scene)
    await scene.apply(policy=POLICY.format(provider="decider"))
    await found.decider.refuse()
    assert (await found.get("/x")).status == 403
    assert (await found.get("/other")).status == 200

    await scene.apply(mesh_config=MESH.format(fail_open="true"))
    assert (await found.get("/x")).status == 200


async def test_what_the_rules_of_an_unknown_provider_match_is_denied(scene: Scene) -> None:
    found = await asked(scene)
    await scene.apply(policy=POLICY.format(provider="unknown"))
    assert (await found.get("/x")).status == 403
    assert (await found.get("/other")).status == 200
    assert found.decider.count == 0

    await scene.apply(policy=POLICY.format(provider="decider"))
    assert (await found.get("/x")).status == 200
    await scene.apply(policy=None)
    assert (await found.get("/x")).status == 200
    assert found.decider.count == 1


MESH_GRPC = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  extensionProviders:
  - name: decider
    envoyExtAuthzGrpc: {service: authz.b.svc.cluster.local, port: 9000, timeout: 5s}
"""
TCP_SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec:
  hosts: [s.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: tcp, protocol: TCP, targetPort: {port}}}]
  endpoints: [{{address: {address}, labels: {{app: s}}}}]
"""


class Decider:
    """An authorizer that is asked by gRPC."""

    def __init__(self) -> None:
        self.allows = True
        self.asked: list[external_auth_pb2.CheckRequest] = []

    async def check(
        self,
        request: external_auth_pb2.CheckRequest,
        _context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> external_auth_pb2.CheckResponse:
        self.asked.append(request)
        code = code_pb2.OK if self.allows else code_pb2.PERMISSION_DENIED
        return external_auth_pb2.CheckResponse(status=status_pb2.Status(code=code))


@asynccontextmanager
async def decider_at(place: str) -> AsyncIterator[Decider]:
    decider = Decider()
    handler = grpc.unary_unary_rpc_method_handler(
        decider.check,
        request_deserializer=external_auth_pb2.CheckRequest.FromString,
        response_serializer=external_auth_pb2.CheckResponse.SerializeToString,
    )
    methods = grpc.method_handlers_generic_handler(
        "envoy.service.auth.v3.Authorization", {"Check": handler}
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((methods,))
    server.add_insecure_port(place)
    await server.start()
    try:
        yield decider
    finally:
        await server.stop(None)


async def test_provider_is_asked_by_grpc_about_requests_and_about_connections(scene: Scene) -> None:
    address, place = scene.network.address(), scene.network.address()
    port = scene.port()
    authz = SERVICE.format(name="authz", address=place, port=9000)
    await scene.apply(
        service=TCP_SERVICE.format(address=address, port=port),
        web=SERVICE.format(name="web", address=address, port=8080),
        authz=authz.replace("name: http, protocol: HTTP", "name: grpc, protocol: GRPC"),
        mesh_config=MESH_GRPC,
        policy=POLICY.format(provider="decider").replace(
            "{paths: ['/x*']}", f"{{ports: ['{port}', '8080']}}"
        ),
    )
    async with decider_at(f"{place}:9000") as decider:
        sidecar = await scene.sidecar(
            "s", namespace="b", service_account="s", labels={"app": "s"}, address=address
        )
        await scene.echo("application", address=sidecar.app_address)
        await scene.tcp_echo("connections", address=sidecar.app_address, port=port)
        found = Asked(sidecar, Echo("", "", 8080), Echo("", "", 0))

        assert (await found.get("/a")).status == 200
        assert decider.asked[-1].attributes.request.http.path == "/a"
        assert b"connections" in await sidecar.send(port, b"hello\n", address=address)
        assert decider.asked[-1].attributes.destination.address.socket_address.port_value == port

        decider.allows = False
        assert (await found.get("/a")).status == 403
        assert b"connections" not in await sidecar.send(port, b"hello\n", address=address)
