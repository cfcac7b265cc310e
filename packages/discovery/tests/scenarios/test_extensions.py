"""TrafficExtensions and WasmPlugins with real Envoys: where they act, and in which order."""

from pathlib import Path
from typing import NamedTuple

from planes import eventually
from scenarios import MeshEnvoy, Scene
from wasm_modules.testing import ADD_HEADER

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {{name: s, namespace: b}}
spec: {{address: {address}, serviceAccount: s, labels: {{app: s}}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec:
  hosts: [s.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: 80, name: http, protocol: HTTP, targetPort: 8080}}
  - {{number: 81, name: other, protocol: HTTP, targetPort: 8081}}
  - {{number: 90, name: tcp, protocol: TCP, targetPort: 9000}}
  workloadSelector: {{labels: {{app: s}}}}
"""
SCRIPT = """\
apiVersion: extensions.istio.io/v1alpha1
kind: TrafficExtension
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  {more}
  lua:
    inlineCode: |
      function envoy_on_request(handle)
        handle:headers():add("x-seen", "{name}")
      end
"""
PLUGIN = """\
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{url: "{url}", {more}}}
"""
ONLY_SEEN = """\
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: seen, namespace: b}
spec:
  rules: [{when: [{key: "request.headers[x-seen]", values: [guard]}]}]
"""
GATEWAY = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: gw, namespace: b}}
spec:
  selector: {{istio: ingressgateway}}
  servers: [{{port: {{number: {port}, name: http, protocol: HTTP}}, hosts: [s.example.com]}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: gw, namespace: b}}
spec:
  hosts: [s.example.com]
  gateways: [gw]
  http: [{{route: [{{destination: {{host: s.b.svc.cluster.local, port: {{number: 80}}}}}}]}}]
"""


def script(name: str, *, namespace: str = "b", more: str = "phase: UNSPECIFIED") -> str:
    return SCRIPT.format(name=name, namespace=namespace, more=more)


class Pair(NamedTuple):
    """A client C in namespace a, and a server S in namespace b."""

    client: MeshEnvoy
    server: MeshEnvoy

    async def apply(self, scene: Scene, **documents: str | None) -> None:
        """Apply documents, and wait until no connection is served as it was before."""
        await scene.apply(mistaken=False, wait=True, **documents)

        async def draining() -> int:
            found = await self.server.stats("listener_manager.total_.*_draining")
            return sum(found.values())

        await eventually(draining, wanted=0, what="the end of listeners as they were")

    async def seen(self, url: str = "http://s.b/") -> list[str]:
        """Return the scripts that a request went through, in their order."""
        answer = await self.client.get(url)
        assert answer.status == 200, answer
        return [value for name, value in answer.seen.header_list if name.lower() == "x-seen"]


async def pair(scene: Scene) -> Pair:
    address = scene.network.address()
    await scene.apply(service=SERVICE.format(address=address))
    server = await scene.sidecar(
        "s", namespace="b", service_account="s", labels={"app": "s"}, address=address
    )
    await scene.echo("application", address=server.app_address)
    await scene.echo("other", address=server.app_address, port=8081)
    await scene.tcp_echo("application", address=server.app_address)
    # The dialects of the protocol differ in how names are subscribed to.
    return Pair(await scene.sidecar("c", delta=True), server)


async def test_scripts_act_at_their_side_and_on_their_ports_in_the_order_of_priorities(
    scene: Scene,
) -> None:
    found = await pair(scene)
    assert await found.seen() == []
    await found.apply(
        scene,
        mesh=script("of-mesh", namespace="istio-system"),
        last=script("last"),
        low=script("low", more="priority: 1"),
        high=script("high", more="priority: 2"),
        port=script("port", more="match: [{mode: SERVER, ports: [{number: 8081}]}]"),
        out=script("out", namespace="a", more="match: [{mode: CLIENT, ports: [{number: 80}]}]"),
        none=script("none", namespace="a", more="match: [{mode: SERVER}]"),
        others=script("others", more="selector: {matchLabels: {app: another}}"),
    )
    at_client = ["out", "of-mesh"]
    assert await found.seen() == [*at_client, "high", "low", "last", "of-mesh"]
    assert await found.seen("http://s.b:81/") == [
        "of-mesh",
        "high",
        "low",
        "last",
        "port",
        "of-mesh",
    ]
    await found.apply(scene, high=None, low=None, mesh=None)
    assert await found.seen() == ["out", "last"]


async def test_a_policy_sees_what_an_extension_before_it_did(scene: Scene) -> None:
    found = await pair(scene)
    await found.apply(scene, policy=ONLY_SEEN)
    assert (await found.client.get("http://s.b/")).status == 403
    for phase, status in (("AUTHN", 200), ("AUTHZ", 200), ("STATS", 403), ("UNSPECIFIED", 403)):
        await found.apply(scene, guard=script("guard", more=f"phase: {phase}"))
        assert (await found.client.get("http://s.b/")).status == status, phase


async def test_a_module_acts_at_a_gateway_a_client_or_a_server_and_goes_again(
    scene: Scene, tmp_path: Path
) -> None:
    module = tmp_path / "add-header.wasm"
    module.write_bytes(ADD_HEADER)
    found = await pair(scene)
    port = scene.port()
    await found.apply(scene, gateway=GATEWAY.format(port=port))
    router = await scene.router()

    async def added() -> tuple[bool, bool]:
        """Return whether the module answered by the gateway, and by the client."""
        answers = (
            await router.get(f"http://s.example.com:{port}/"),
            await found.client.get("http://s.b/"),
        )
        assert [each.status for each in answers] == [200, 200]
        return tuple("x-wasm" in each.headers for each in answers)  # type: ignore[return-value]

    def plugin(namespace: str, more: str) -> str:
        return PLUGIN.format(name="m", namespace=namespace, url=f"file://{module}", more=more)

    assert await added() == (False, False)
    at_router = plugin("b", "selector: {matchLabels: {istio: ingressgateway}}, phase: AUTHN")
    await found.apply(scene, plugin=at_router)
    assert await added() == (True, False)
    await found.apply(scene, plugin=plugin("a", "match: [{mode: CLIENT}]"))
    assert await added() == (False, True)
    await found.apply(scene, plugin=plugin("b", "selector: {matchLabels: {app: s}}"))
    assert await added() == (True, True)
    await found.apply(scene, plugin=None)
    assert await added() == (False, False)


async def test_what_a_module_is_given_reaches_it_without_its_listeners_being_replaced(
    scene: Scene, tmp_path: Path
) -> None:
    module = tmp_path / "add-header.wasm"
    module.write_bytes(ADD_HEADER)
    found = await pair(scene)

    def plugin(greeting: str) -> str:
        more = f"pluginConfig: {{greeting: {greeting}}}, pluginName: greeter"
        return PLUGIN.format(name="m", namespace="b", url=f"file://{module}", more=more)

    async def given() -> str:
        dump = await found.server.dump()
        (text,) = {
            config["configuration"]["value"]
            for each in dump["configs"]
            for one in each.get("ecds_filters", ())
            for config in (one["ecds_filter"]["typed_config"]["config"],)
            if config["root_id"] == "greeter"
        }
        return str(text)

    async def replaced() -> int:
        return sum((await found.server.stats("listener_manager.listener_modified")).values())

    await found.apply(scene, plugin=plugin("hello"))
    assert await given() == '{"greeting":"hello"}'
    before = await replaced()
    await found.apply(scene, plugin=plugin("goodbye"))
    await eventually(given, wanted='{"greeting":"goodbye"}', what="the edited configuration")
    assert await replaced() == before
    assert "x-wasm" in (await found.client.get("http://s.b/")).headers


async def test_a_module_of_connections_stands_before_what_forwards_them(
    scene: Scene, tmp_path: Path
) -> None:
    module = tmp_path / "module.wasm"
    module.write_bytes(ADD_HEADER)
    found = await pair(scene)
    more = "type: NETWORK, match: [{mode: SERVER, ports: [{number: 9000}]}]"
    url = f"file://{module}"
    await found.apply(scene, plugin=PLUGIN.format(name="m", namespace="b", url=url, more=more))
    assert await found.client.send(90, b"hello\n", address=found.client.outbound_address)
    dump = await found.server.dump()
    filters = [
        [each["name"] for each in chain["filters"]]
        for each in dump["configs"]
        for dynamic in each.get("dynamic_listeners", ())
        for listener in (dynamic["active_state"]["listener"],)
        if listener["address"]["socket_address"]["port_value"] == 9000
        for chain in listener["filter_chains"]
    ]
    assert filters
    for each in filters:
        assert each[-2].startswith("extensions.istio.io/trafficextension/b.m")
        assert each[-1] == "envoy.filters.network.tcp_proxy"
