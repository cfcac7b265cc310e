"""Real sockets: TCP, Unix, TLS with and without a client certificate."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509

from mesh_listening import GRPC_LIMITS
from server_pki import Pki
from xds_server import (
    Admission,
    ListenError,
    Node,
    Peer,
    PlainListener,
    PushRequest,
    Refused,
    Resource,
    ServerConfig,
    TlsListener,
    UnixListener,
    XdsServer,
    peer_of,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import (
    ADS_DELTA,
    DeltaClient,
    SotwClient,
    StreamEnded,
    admit_all,
    over_grpc,
)
from xds_state import Make, State


def new_server(state: State, **options: Any) -> XdsServer[Any]:
    server: XdsServer[Any] = XdsServer(
        {types.CLUSTER: state, types.ENDPOINT: state},
        admit=options.pop("admit", admit_all),
        config=ServerConfig(debounce_quiet_s=0.01),
        **options,
    )
    server.set_ready()
    return server


async def test_tcp_serves_both_dialects(state: State, make: Make) -> None:
    state.set(make.cluster("a"))
    server = new_server(state)
    async with serving(server, [PlainListener()]) as bound:
        async with over_grpc(bound.addresses[0]) as wire:
            sotw = SotwClient(wire)
            await sotw.subscribe(types.CLUSTER)
            assert (await sotw.next()).resources == {"a": state.resources[types.CLUSTER]["a"].body}
        async with over_grpc(bound.addresses[0], path=ADS_DELTA) as wire:
            delta = DeltaClient(wire)
            await delta.subscribe(types.CLUSTER)
            assert set((await delta.next()).resources) == {"a"}
            state.set(make.cluster("b"))
            server.notify(PushRequest(triggers=("config",)))
            assert set((await delta.next()).resources) == {"b"}


async def test_a_bound_port_is_a_clear_error(state: State) -> None:
    async with serving(new_server(state), [PlainListener()]) as bound:
        port = int(bound.addresses[0].rpartition(":")[2])
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}"):
            async with serving(new_server(state), [PlainListener(port=port)]):
                pass


async def test_unix_socket_directory_is_private_and_the_socket_goes_away(
    state: State, make: Make, tmp_path: Path
) -> None:
    state.set(make.cluster("a"))
    path = tmp_path / "run" / "xds.sock"
    async with serving(new_server(state), [UnixListener(path=path)]) as bound:
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert path.stat().st_mode & 0o777 == 0o600
        async with over_grpc(bound.addresses[0]) as wire:
            client = SotwClient(wire)
            await client.subscribe(types.CLUSTER)
            assert set((await client.next()).resources) == {"a"}
    assert not path.exists()


async def test_a_stale_socket_is_replaced(state: State, tmp_path: Path) -> None:
    path = tmp_path / "xds.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    async with serving(new_server(state), [UnixListener(path=path)]):
        assert path.is_socket()


async def test_a_socket_in_use_is_a_clear_error(state: State, tmp_path: Path) -> None:
    path = tmp_path / "xds.sock"
    async with serving(new_server(state), [UnixListener(path=path)]):
        with pytest.raises(ListenError, match="in use"):
            async with serving(new_server(state), [UnixListener(path=path)]):
                pass
        assert path.is_socket()


async def test_a_regular_file_in_the_way_is_a_clear_error(state: State, tmp_path: Path) -> None:
    path = tmp_path / "xds.sock"
    path.write_text("precious")
    with pytest.raises(ListenError, match="not a socket"):
        async with serving(new_server(state), [UnixListener(path=path)]):
            pass
    assert path.read_text() == "precious"


async def test_a_socket_path_too_long_is_a_clear_error(state: State, tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120)
    with pytest.raises(ListenError, match="at most 107"):
        async with serving(new_server(state), [UnixListener(path=path)]):
            pass


NAMED_LOCALHOST = [("grpc.ssl_target_name_override", "localhost")]


async def test_one_tls_port_takes_callers_with_and_without_a_certificate(
    state: State, make: Make, pki: Pki
) -> None:
    state.set(make.cluster("a"))
    seen: list[Peer] = []

    async def admit(_node: Node, peer: Peer) -> Admission[None]:
        seen.append(peer)
        return Admission(identities=("x",), context=None)

    async with serving(
        new_server(state, admit=admit), [TlsListener(context=pki.server_context)]
    ) as bound:
        for with_certificate in (False, True):
            async with over_grpc(
                bound.addresses[0],
                credentials=pki.credentials(with_certificate=with_certificate),
                options=NAMED_LOCALHOST,
                metadata=[("authorization", "Bearer t")],
            ) as wire:
                client = SotwClient(wire)
                await client.subscribe(types.CLUSTER)
                assert set((await client.next()).resources) == {"a"}
    without, with_one = seen
    assert without.encrypted
    assert without.certificate_chain == ()
    assert without.metadata["authorization"] == "Bearer t"
    assert without.address.startswith("ipv4:127.0.0.1:")
    leaf = x509.load_der_x509_certificate(with_one.certificate_chain[0])
    assert leaf == x509.load_pem_x509_certificate(pki.client_chain.read_bytes())
    assert x509.load_der_x509_certificate(with_one.certificate_chain[-1]) == pki.root
    assert "Bearer" not in repr(seen)


async def test_a_client_certificate_of_another_root_is_refused(
    state: State, pki: Pki, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Pki(tmp_path / "other")
    credentials = grpc.ssl_channel_credentials(
        pki.root_pem, other.client_key.read_bytes(), other.client_chain.read_bytes()
    )
    async with (
        serving(new_server(state), [TlsListener(context=pki.server_context)]) as bound,
        over_grpc(bound.addresses[0], credentials=credentials, options=NAMED_LOCALHOST) as wire,
    ):
        with pytest.raises(StreamEnded) as ended:
            await wire.receive()
    assert ended.value.code is grpc.StatusCode.UNAVAILABLE


async def test_a_renewed_certificate_is_served_to_new_connections(state: State, pki: Pki) -> None:
    async with serving(new_server(state), [TlsListener(context=pki.server_context)]) as bound:
        host, _, port = bound.addresses[0].rpartition(":")
        first = await served_certificate(host, int(port), pki)
        pki.server_chain, pki.server_key = pki.issue("renewed", x509.DNSName("localhost"))
        second = await served_certificate(host, int(port), pki)
    assert first != second


async def served_certificate(host: str, port: int, pki: Pki) -> bytes:
    context = ssl.create_default_context(cadata=pki.root_pem.decode())
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname="localhost")
    ssl_object = writer.get_extra_info("ssl_object")
    assert ssl_object.selected_alpn_protocol() == "h2"
    certificate: bytes = ssl_object.getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return certificate


class WhoAmI(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """A further service: says what `peer_of` knows."""

    def service(self, handler_call_details: Any) -> Any:
        async def who(_request: bytes, context: Any) -> bytes:
            peer = peer_of(context)
            return f"{peer.encrypted} {len(peer.certificate_chain)}".encode()

        if handler_call_details.method != "/test.Who/AmI":
            return None
        return grpc.unary_unary_rpc_method_handler(who)


async def test_further_services_learn_of_the_peer(state: State, pki: Pki) -> None:
    async with serving(
        new_server(state),
        [TlsListener(context=pki.server_context), PlainListener()],
        extra_handlers=[WhoAmI()],
    ) as bound:
        tls, plain = bound.addresses
        async with grpc.aio.secure_channel(
            tls, pki.credentials(with_certificate=True), options=NAMED_LOCALHOST
        ) as channel:
            assert await channel.unary_unary("/test.Who/AmI", None, None)(b"") == b"True 2"
        async with grpc.aio.insecure_channel(plain) as channel:
            assert await channel.unary_unary("/test.Who/AmI", None, None)(b"") == b"False 0"


async def test_refused_by_admit_ends_the_stream_with_its_status(state: State) -> None:
    async def admit(node: Node, _peer: Peer) -> Admission[None]:
        raise Refused(grpc.StatusCode.PERMISSION_DENIED, f"{node.id} may not")

    async with serving(new_server(state, admit=admit), [PlainListener()]) as bound:
        async with over_grpc(bound.addresses[0]) as wire:
            client = SotwClient(wire, node_id="mallory")
            await client.subscribe(types.CLUSTER)
            with pytest.raises(StreamEnded) as ended:
                await client.receive()
    assert ended.value.code is grpc.StatusCode.PERMISSION_DENIED
    assert ended.value.message == "mallory may not"


async def test_a_client_that_writes_on_gets_the_reason_why_it_was_refused(state: State) -> None:
    async def admit(_node: Node, _peer: Peer) -> Admission[None]:
        raise Refused(grpc.StatusCode.PERMISSION_DENIED, "not you")

    async with serving(new_server(state, admit=admit), [PlainListener()]) as bound:
        for _ in range(40):
            async with over_grpc(bound.addresses[0]) as wire:
                client = SotwClient(wire, node_id="mallory")
                with pytest.raises(StreamEnded) as ended:
                    while True:
                        await client.subscribe(types.CLUSTER)
            assert str(ended.value) == "PERMISSION_DENIED: not you"


class Heard(logging.Handler):
    """What is logged about handshakes, to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.records: asyncio.Queue[logging.LogRecord] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg in {"TLS handshake failed", "connection closed before its first byte"}:
            self.records.put_nowait(record)


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, logger = Heard(), logging.getLogger("mesh_listening")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.setLevel(before)
    logger.removeHandler(handler)


@pytest.mark.parametrize(
    ("said", "level"), [(b"", logging.DEBUG), (b"GET / HTTP/1.1\r\n\r\n", logging.INFO)]
)
async def test_a_failed_handshake_has_a_reason_in_words_and_a_health_check_needs_none(
    state: State, pki: Pki, heard: Heard, said: bytes, level: int
) -> None:
    listener = TlsListener(context=pki.server_context)
    async with serving(new_server(state), [listener]) as bound:
        host, port = bound.addresses[0].split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(said)
        writer.close()
        await writer.wait_closed()
        record = await heard.records.get()
    assert record.levelno == level
    assert bool(record.__dict__.get("reason")) is bool(said)


@pytest.mark.slow
async def test_tls_connections_without_a_handshake_end_and_harm_no_other(
    state: State, make: Make, pki: Pki
) -> None:
    state.set(make.cluster("a"))
    # Long enough for the one that speaks.
    limits = GRPC_LIMITS._replace(first_byte_s=5.0)
    listener = TlsListener(context=pki.server_context, limits=limits)
    async with serving(new_server(state), [listener]) as bound:
        host, _, port = bound.addresses[0].rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(50)]
        reader, garbage = await asyncio.open_connection(host, int(port))
        garbage.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.read()
        credentials = pki.credentials(with_certificate=False)
        async with over_grpc(
            bound.addresses[0], credentials=credentials, options=NAMED_LOCALHOST
        ) as wire:
            client = SotwClient(wire)
            await client.subscribe(types.CLUSTER)
            assert set((await client.next()).resources) == {"a"}
        for silent_reader, _ in silent:
            await silent_reader.read()
        for writer in (garbage, *(writer for _, writer in silent)):
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def test_who_does_not_read_gets_the_newest_state_and_no_backlog(state: State) -> None:
    """Flow control of the connection holds the writer back, and the rest is never generated."""

    def big(number: int) -> Resource:
        body = b"\x0a\x03big\xaa\x06\x80\x80\x40" + str(number).zfill(1 << 20).encode()
        return Resource(name="big", type_url=types.CLUSTER, body=body, version=str(number))

    state.set(big(0))
    server = new_server(state)
    async with serving(server, [PlainListener()]) as bound:
        address = bound.addresses[0]
        async with over_grpc(address) as slow_wire, over_grpc(address) as quick_wire:
            slow, quick = SotwClient(slow_wire), SotwClient(quick_wire)
            for client in (slow, quick):
                await client.subscribe(types.CLUSTER)
                await client.next()
            for number in range(1, 41):
                state.set(big(number))
                server.push_now(PushRequest())
                await quick.next()
            received = 0
            while slow.resources(types.CLUSTER)["big"] != big(40).body:
                await slow.next()
                received += 1
    assert received < 20
