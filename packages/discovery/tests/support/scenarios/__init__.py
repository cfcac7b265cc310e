"""Scenes: a control plane, real Envoys and echo servers, for tests of what traffic does.

A test asks for the fixture `scene`, says what the mesh is configured with, and calls:

    async def test_weights_share_the_traffic(scene: Scene) -> None:
        reviews = await scene.reviews()  # client C in namespace a; s.b with v1 and v2
        await scene.apply(
            split='''
              apiVersion: networking.istio.io/v1
              kind: VirtualService
              ...
            '''
        )
        answer = await reviews.client.get("http://s.b/path", headers={"x": "a"})
        assert (answer.status, answer.version, answer.seen.path) == (200, "v1", "/path")

- `await scene.apply(name=yaml, other=None)` writes, replaces or (None) removes documents. It
  returns when every Envoy of the scene shows in its config dump all that the control plane would
  give it, and fails with Envoy's message when one refused something. A mistake in the YAML fails
  it too, unless `mistaken=True`: then it returns the problems, and the last good content of that
  document is served. The mesh config is the document `mesh_config`; the default one logs requests
  as JSON.
- `await scene.sidecar(namespace="a", service_account="c", labels={...}, metadata={...})` starts an
  Envoy in interception mode NONE. Its workload's address is `.address`, the application's
  `.app_address`, its own listeners are at `.outbound_address`.
  `await scene.router(namespace="b", labels={...})` starts a gateway, which listens on an
  address of its own (`.outbound_address`) unless a server has a bind.
- `.get(url, headers=..., method=...)` of either goes to the listener of the URL's port by the
  URL's host; `.send(port, data)` talks TCP. `await .access_log()` returns the entries so far (a
  list of dicts), `await .logged(path="/x")` waits for one; `await .stat(name)` is one counter or
  gauge by its exact name, `await .stats(pattern)` those that match; `.dump()` is the config dump.
  Log and counters have clusters by their stat name, which ends with a semicolon.
- `await scene.echo("v1")` serves HTTP on an address of its own and answers with JSON of what came.
  `.requests` are those so far; `.answer(status=503, delay_s=1, headers={...})` changes the
  answers, `await .refuse()` closes the port, `await .accept()` opens it again.
  `tls=scene.tls("a.example")` serves HTTPS and notes each SNI in `.server_names`.
  `await scene.tcp_echo("v1", banner=b"hi")` is the same for TCP, and `await scene.version_echo()`
  answers with the version of HTTP that it was asked in. `get_http2(address, port, host)` asks in
  HTTP/2.
- Addresses are of a network 127.x.y.0/24 that only this scene has: `scene.network.address()`.
"""

from scenarios._answers import Answer, Seen
from scenarios._echo import Echo
from scenarios._envoys import MeshEnvoy
from scenarios._http2 import VersionEcho, get_http2
from scenarios._networks import claimed_network
from scenarios._plane import Refused
from scenarios._reviews import Reviews
from scenarios._scene import Scene, opened_scene
from scenarios._tcp_echo import TcpEcho

__all__ = [
    "Answer",
    "Echo",
    "MeshEnvoy",
    "Refused",
    "Reviews",
    "Scene",
    "Seen",
    "TcpEcho",
    "VersionEcho",
    "claimed_network",
    "get_http2",
    "opened_scene",
]
