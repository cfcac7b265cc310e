"""gRPC programs without an Envoy: the example's clients and servers, and Envoys beside them."""

import asyncio
import json
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from google.protobuf.wrappers_pb2 import StringValue

from mesh_e2e import (
    EXAMPLE,
    ForeignAuthority,
    Target,
    another_control_plane,
    calling,
    greeted,
    kill_control_plane,
    mesh_client_context,
    mesh_of,
    node_programs,
    presented_serial,
    renewing_early,
    run_command,
    send,
    until_listening,
)
from mesh_local import RunningMesh
from mesh_testkit import PATIENCE_S, until

Record = Callable[[str, object], None]

SERVER = f"[{sys.executable}, {EXAMPLE / 'server.py'}]"
PLAIN_SERVER = f"[{sys.executable}, {Path(__file__).parent / 'apps/plain_greeter.py'}]"
PORT = 50051
GREETER = f"xds:///greeter.shop.svc.cluster.local:{PORT}"
CALLER = "spiffe://example.org/ns/shop/sa/web"
MESH = f"""\
    mesh: {{trustDomain: example.org}}
    workloads:
      - name: greeter
        namespace: shop
        proxyless: true
        ports: [{{port: {PORT}, protocol: grpc}}]
        command: {SERVER}
      - {{name: caller, namespace: shop, serviceAccount: web, proxyless: true}}
"""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory whose name is short enough for the sockets that programs connect to."""
    with tempfile.TemporaryDirectory(prefix="grpc-") as name:
        yield Path(name)


@pytest_asyncio.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[RunningMesh]:
    async with mesh_of(MESH, tmp_path) as running:
        yield running


@pytest_asyncio.fixture
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return await node_programs(request, tmp_path)


def address_of(mesh: RunningMesh, workload: str) -> str:
    return mesh.workload(workload).instance.addresses.inbound


async def until_answered(mesh: RunningMesh, target: str = GREETER) -> None:
    """Wait for the first configuration to be everywhere, before which failures mean nothing."""
    await greeted(mesh, "caller", target)


async def test_callers_are_known_by_their_certificates(mesh: RunningMesh) -> None:
    for host in ("greeter", "greeter.shop", "greeter.shop.svc.cluster.local"):
        answer = await greeted(mesh, "caller", f"xds:///{host}:{PORT}")
        assert answer == {"message": "hello, ada", "served-by": "greeter", "caller": CALLER}


@pytest.mark.slow
async def test_only_certificates_of_the_mesh_are_accepted(
    mesh: RunningMesh, tmp_path: Path
) -> None:
    await until_answered(mesh)
    address = address_of(mesh, "greeter")
    own = mesh_client_context(mesh, tmp_path / "own", "spiffe://example.org/ns/shop/sa/other")
    assert await settings_frame(address, own)
    foreign = ForeignAuthority(tmp_path / "ca", "example.org")
    without = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    without.check_hostname = False
    without.verify_mode = ssl.CERT_NONE
    for what, context in (
        ("plaintext", None),
        ("no certificate", without),
        ("another authority's certificate", foreign.client_context(tmp_path / "f", CALLER)),
    ):
        assert not await settings_frame(address, context), what


async def settings_frame(address: str, context: ssl.SSLContext | None, port: int = PORT) -> bool:
    """Whether the server begins to speak HTTP/2 with a client."""
    if context is not None:
        context.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(
                address, port, ssl=context, server_hostname="" if context is not None else None
            )
            try:
                writer.write(
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
                )
                head = await reader.read(9)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, ssl.SSLError):
        return False
    # A server that closes sends SETTINGS and GOAWAY in plaintext too; one that serves answers us.
    return len(head) == 9 and head[3] == 4


@pytest.mark.slow
async def test_a_server_that_is_another_than_the_name_s_is_refused(mesh: RunningMesh) -> None:
    """A service's name leads to a server with a certificate of the mesh, but not its own."""
    file = mesh.state.config / "vault.yaml"
    file.write_text(service("vault", address_of(mesh, "greeter"), account="vault"))
    with pytest.raises(AssertionError, match=r"UNAVAILABLE|DEADLINE_EXCEEDED"):
        await greeted(mesh, "caller", f"xds:///vault.shop:{PORT}")
    file.write_text(service("vault", address_of(mesh, "greeter"), account="greeter"))
    answer = await greeted(mesh, "caller", f"xds:///vault.shop:{PORT}")
    assert answer["caller"] == CALLER


def service(name: str, *addresses: str, account: str, weights: tuple[int, ...] = ()) -> str:
    weights = weights or (1,) * len(addresses)
    endpoints = "\n".join(
        f"    - {{address: {address}, serviceAccount: {account}, weight: {weight}}}"
        for address, weight in zip(addresses, weights, strict=True)
    )
    return f"""\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: shop}}
spec:
  hosts: [{name}.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: {PORT}, name: grpc, protocol: GRPC}}]
  endpoints:
{endpoints or "    []"}
"""


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DISABLE"])
async def test_where_tls_is_not_demanded_both_sides_speak_plaintext(
    tmp_path: Path, mode: str
) -> None:
    text = MESH.replace("example.org}", f"example.org, mtls: {mode}}}")
    async with mesh_of(text, tmp_path) as mesh:
        answer = await greeted(mesh, "caller", GREETER)
        assert answer["caller"] is None
        assert (await plaintext_call(f"{address_of(mesh, 'greeter')}:{PORT}"))["caller"] is None


async def plaintext_call(address: str, authority: str = "greeter") -> dict[str, str | None]:
    options = [("grpc.default_authority", authority)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        say_hello = channel.unary_unary(
            "/greeter.Greeter/SayHello",
            request_serializer=StringValue.SerializeToString,
            response_deserializer=StringValue.FromString,
        )
        request = StringValue(value="ada")
        answer = await say_hello(request, timeout=PATIENCE_S, wait_for_ready=True)
        answers: dict[str, str | None] = json.loads(answer.value)
        return answers


@pytest.mark.slow
async def test_node_and_python_call_each_other(
    tmp_path: Path, node: Path, record: Record, free_port: Callable[..., int]
) -> None:
    node_port = free_port()  # it listens on every address, whichever it is given
    text = f"""{MESH}
      - name: node-greeter
        namespace: shop
        proxyless: true
        ports: [{{port: {node_port}, protocol: grpc}}]
        command: [node, {node / "server.mjs"}]
    """
    of_node = ("node", node / "client.mjs")
    async with mesh_of(text, tmp_path) as mesh:
        for server, port in (("greeter", PORT), ("node-greeter", node_port)):
            for program in ((), of_node):
                target = f"xds:///{server}.shop:{port}"
                answer = await greeted(mesh, "caller", target, program=program)
                record(f"{'node' if program else 'python'} client", answer)
                assert (answer["served-by"], answer["caller"]) == (server, CALLER)
        own = mesh_client_context(mesh, tmp_path / "own", CALLER)
        foreign = ForeignAuthority(tmp_path / "ca", "example.org")
        address = address_of(mesh, "node-greeter")
        refused = foreign.client_context(tmp_path / "f", CALLER)
        assert await settings_frame(address, own, node_port)
        assert not await settings_frame(address, None, node_port)
        assert not await settings_frame(address, refused, node_port)


@pytest.mark.slow
async def test_programs_with_and_without_an_envoy_call_each_other(tmp_path: Path) -> None:
    text = f"""{MESH}
      - name: plain
        namespace: shop
        ports: [{{port: {PORT}, protocol: grpc}}]
        command: {PLAIN_SERVER}
      - {{name: plain-caller, namespace: shop}}
    """
    for mode in ("STRICT", "PERMISSIVE"):
        given = text.replace("example.org}", f"example.org, mtls: {mode}}}")
        directory = tmp_path / mode
        directory.mkdir()
        async with mesh_of(given, directory) as mesh:
            answer = await greeted(mesh, "caller", f"xds:///plain.shop:{PORT}")
            assert answer["served-by"] == "plain"
            outbound = mesh.workload("plain-caller").instance.addresses.outbound
            back = await plaintext_call(f"{outbound}:{PORT}", f"greeter.shop:{PORT}")
            assert back["served-by"] == "greeter"
            if mode == "STRICT":
                assert f"URI={CALLER}" in answer["caller"]
                assert back["caller"] == "spiffe://example.org/ns/shop/sa/plain-caller"


async def test_a_program_beside_an_envoy_takes_its_configuration_from_the_same_agent(
    tmp_path: Path,
) -> None:
    """Istio's agent writes the bootstrap of gRPC beside an Envoy, too."""
    text = f"""{MESH}
      - name: both
        namespace: shop
        agentEnv: {{OUTPUT_CERTS: ./certificates}}
    """.replace("example.org}", "example.org, mtls: STRICT}")
    async with mesh_of(text, tmp_path) as mesh:
        both = mesh.workload("both")
        outbound = both.instance.addresses.outbound
        async with calling(mesh, "both", GREETER) as calls:
            through_envoy = await plaintext_call(f"{outbound}:{PORT}", f"greeter.shop:{PORT}")
            await calls.until_completed(10)
            target = Target(host=both.instance.addresses.inbound, port=15020, url="/debug/status")
            status = json.loads((await send(target))[1])
        identity = "spiffe://example.org/ns/shop/sa/both"
        assert (through_envoy["served-by"], through_envoy["caller"]) == ("greeter", identity)
        assert (calls.failures, calls.callers) == ([], {identity})
        # Its stream is none of an Envoy's: what the agent tells and asks for goes by that.
        assert status["xds"]["streams"] == 1


@pytest.mark.slow
async def test_endpoints_are_followed_also_after_the_control_plane_s_return(
    tmp_path: Path, record: Record
) -> None:
    text = MESH + MESH[MESH.index("      - name: greeter") : MESH.index("      - {name: caller")]
    text = text[: len(MESH)] + text[len(MESH) :].replace("name: greeter", "name: other")
    async with mesh_of(text, tmp_path) as mesh, AsyncExitStack() as stack:
        file = mesh.state.config / "either.yaml"
        addresses = {name: address_of(mesh, name) for name in ("greeter", "other")}
        file.write_text(either(addresses["greeter"]))
        target = f"xds:///either.shop:{PORT}"
        await until_answered(mesh, target)
        async with calling(mesh, "caller", target) as calls:
            await calls.until_completed(20)
            replace(file, either(addresses["other"]))
            await calls.until_served_by("other")
            kill_control_plane(mesh)
            await calls.until_completed(100)
            assert calls.last_served_by == "other"
            await stack.enter_async_context(another_control_plane(mesh))
            await until_listening(mesh)
            replace(file, either(addresses["greeter"]))
            await calls.until_served_by("greeter")
            await calls.until_completed(50)
        record("endpoints changed, control plane killed", calls.summary())
        assert calls.failures == []
        assert calls.callers == {CALLER}


def either(address: str) -> str:
    """A service of whichever server is at this address: both identities may serve it."""
    names = ", ".join(f"spiffe://example.org/ns/shop/sa/{name}" for name in ("greeter", "other"))
    text = service("either", address, account="either")
    return text.replace("  endpoints:", f"  subjectAltNames: [{names}]\n  endpoints:")


def replace(file: Path, text: str) -> None:
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text)
    beside.replace(file)


@pytest.mark.slow
async def test_certificates_are_renewed_under_calls(tmp_path: Path, record: Record) -> None:
    text = MESH.replace("example.org}", "example.org, certificateLifetime: 20s}")
    async with mesh_of(text, tmp_path, environ=renewing_early()) as mesh:
        await until_answered(mesh)
        address = address_of(mesh, "greeter")
        context = mesh_client_context(mesh, tmp_path / "own", CALLER)
        presented: list[str] = []

        async def enough() -> bool:
            serial = await presented_serial(address, PORT, context)
            if serial not in presented:
                presented.append(serial)
            return len(presented) >= 6

        async with calling(mesh, "caller", GREETER) as calls:
            await until(enough, what="six certificates", seen=lambda: presented)
            await calls.until_completed(20)
        record("certificates of 20 s", f"{calls.summary()}; {len(presented)} presented")
        assert calls.failures == []
        assert calls.callers == {CALLER}


@pytest.mark.slow
async def test_a_service_that_goes_is_pushed_and_one_that_comes_back_is_called(
    mesh: RunningMesh,
) -> None:
    file = mesh.state.config / "late.yaml"
    target = f"xds:///late.shop:{PORT}"
    command = (sys.executable, "-m", "mesh_discovery", "status")
    place = f"--monitoring-addr={mesh.plan.discovery_address.rpartition(':')[0]}:15014"
    async with asyncio.TaskGroup() as group:
        late = group.create_task(greeted(mesh, "caller", target), name="a call that waits")

        async def is_shown() -> bool:
            status, output, _ = await run_command(
                *command[2:], place, environment={}, directory=mesh.state.path
            )
            return status == 1 and f"not served: late.shop:{PORT}, which" in output

        await until(is_shown, what="the status to tell of the name")
        replace(file, service("late", address_of(mesh, "greeter"), account="greeter"))
        assert (await late)["served-by"] == "greeter"
    async with calling(mesh, "caller", target) as calls:
        file.unlink()
        await until(lambda: calls.failures, what="a failure", seen=lambda: calls)
        replace(file, service("late", address_of(mesh, "greeter"), account="greeter"))
        await calls.until_served_by("greeter")
        failed = -1
        while failed != len(calls.failures):  # those under way come back
            failed = len(calls.failures)
            await calls.until_completed(20)
    assert all(each.startswith("UNAVAILABLE") for each in calls.failures)


@pytest.mark.slow
async def test_calls_are_spread_by_weight(tmp_path: Path, record: Record) -> None:
    text = MESH.replace(
        "proxyless: true\n        ports", "proxyless: true\n        replicas: 2\n        ports"
    )
    async with mesh_of(text, tmp_path) as mesh:
        addresses = [address_of(mesh, name) for name in ("greeter-1", "greeter-2")]
        file = mesh.state.config / "heavy.yaml"
        replace(file, service("heavy", *addresses, account="greeter", weights=(4, 1)))
        async with calling(mesh, "caller", f"xds:///heavy.shop:{PORT}", rate_per_s=200) as calls:
            await calls.until_completed(800)
        record("weights 4 and 1", calls.served_by)
        assert calls.failures == []
        assert calls.served_by["greeter-1"] > calls.served_by["greeter-2"] > 0
        # The generated service has both too, with equal weights.
        async with calling(mesh, "caller", GREETER, rate_per_s=200) as calls:
            await calls.until_completed(60)
        assert calls.served_by.keys() == {"greeter-1", "greeter-2"}


@pytest.mark.slow
async def test_many_applications_share_one_agent(mesh: RunningMesh) -> None:
    """Each has a stream for each name that it calls: more than an Envoy ever has."""
    async with AsyncExitStack() as stack:
        running = [
            await stack.enter_async_context(calling(mesh, "caller", target, rate_per_s=5))
            for target in (GREETER, f"xds:///greeter:{PORT}", f"xds:///greeter.shop:{PORT}") * 2
        ]
        for calls in running:
            await calls.until_completed(5)
        assert [calls.failures for calls in running] == [[]] * 6
    assert "ending streams" not in mesh.workload("caller").agent.spec.log.read_text()
    await greeted(mesh, "caller", GREETER)
