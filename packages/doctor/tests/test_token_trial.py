"""The token is shown to an authority that was verified, and to no other server."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from mesh_doctor import Server
from mesh_doctor._observed import SeenServer
from mesh_doctor.observing._control_plane import seen_server
from mesh_identity import Fault
from mesh_testkit.certificates import Authority

TOKEN = "a.canary.token"


class FakeAuthority:
    """Answers every call with a status; remembers the metadata and requests that came."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self.code = code
        self.root = Authority()
        self.seen: list[tuple[str, bytes]] = []
        self.port = 0

    async def call(
        self, request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]"
    ) -> bytes:
        metadata = dict(context.invocation_metadata() or ())
        self.seen.append((str(metadata.get("authorization", "")), request))
        context.set_code(self.code)
        context.set_details("because")
        return b""

    def server(self, directory: Path, *, roots: bytes, name: str = "istiod") -> Server:
        (directory / "root.pem").write_bytes(roots)
        return Server(
            serves="certificates",
            address=f"127.0.0.1:{self.port}",
            name=name,
            name_setting="ISTIOD_SAN",
            roots=directory / "root.pem",
            root_setting="CA_ROOT_CA",
            signs=True,
        )


@asynccontextmanager
async def authority(code: grpc.StatusCode) -> AsyncIterator[FakeAuthority]:
    fake = FakeAuthority(code)
    issued = fake.root.issue("istiod")
    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(fake.call)
    service = "istio.v1.auth.IstioCertificateService"
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {"CreateCertificate": method}),)
    )
    credentials = grpc.ssl_server_credentials([(issued.key_pem, issued.chain_pem)])
    fake.port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield fake
    finally:
        await server.stop(None)


async def asked(server: Server) -> SeenServer:
    return await seen_server(server, learned_roots=None, token=TOKEN, timeout_s=60)


@pytest.mark.parametrize(
    ("code", "accepted"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, False),
        (grpc.StatusCode.PERMISSION_DENIED, False),
        (grpc.StatusCode.INVALID_ARGUMENT, True),
        (grpc.StatusCode.UNIMPLEMENTED, None),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, None),
    ],
)
async def test_the_authoritys_verdict(
    tmp_path: Path,
    code: grpc.StatusCode,
    accepted: bool | None,  # noqa: FBT001
) -> None:
    async with authority(code) as fake:
        seen = await asked(fake.server(tmp_path, roots=fake.root.root_pem))
    assert seen.unreachable is None
    assert seen.trial is not None
    assert (seen.trial.accepted, seen.trial.reason) == (accepted, f"{code.name}: because")
    # The request has no CSR: there is nothing that could be signed.
    assert fake.seen == [(f"Bearer {TOKEN}", b"")]


async def test_a_server_that_is_not_verified_is_not_shown_the_token(tmp_path: Path) -> None:
    async with authority(grpc.StatusCode.INVALID_ARGUMENT) as fake:
        by_root = await asked(fake.server(tmp_path, roots=Authority().root_pem))
        by_name = await asked(fake.server(tmp_path, roots=fake.root.root_pem, name="other"))
        plaintext = await asked(
            replace(fake.server(tmp_path, roots=fake.root.root_pem), roots=None)
        )
        not_signing = await asked(
            replace(fake.server(tmp_path, roots=fake.root.root_pem), signs=False)
        )
    assert by_root.unreachable is not None
    assert by_root.unreachable.fault is Fault.WRONG_ROOT
    assert by_name.unreachable is not None
    assert by_name.unreachable.fault is Fault.WRONG_NAME
    assert (plaintext.trial, not_signing.trial) == (None, None)
    assert fake.seen == []


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "does not exist"), (b"", "no PEM certificate"), (b"\xff" * 100, "no PEM certificate")],
)
async def test_roots_that_are_none(
    tmp_path: Path, content: bytes | None, words: str, free_port: Callable[[], int]
) -> None:
    fake = FakeAuthority(grpc.StatusCode.OK)
    fake.port = free_port()
    server = fake.server(tmp_path, roots=content or b"")
    if content is None:
        (tmp_path / "root.pem").unlink()
    seen = await asked(server)
    assert words in seen.roots_problem
