"""A running control plane whose certificate authority changes, and its revocation list."""

import asyncio
import json
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from cryptography import x509
from envoy.service.discovery.v3 import discovery_pb2

from mesh_ca import TokenIssuer, load_or_create_authority
from mesh_protos import proxy_config_pb2, type_urls

ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
Start = Callable[..., Awaitable[Any]]
GUARD_S = 60.0


async def run(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mesh_discovery",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(GUARD_S):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def bundles(address: str) -> AsyncIterator[list[x509.Certificate]]:
    """Follow the trust bundle as a workload does: each is acknowledged."""
    async with grpc.aio.insecure_channel(address) as channel:
        method: Any = channel.stream_stream(
            ADS,
            request_serializer=discovery_pb2.DiscoveryRequest.SerializeToString,
            response_deserializer=discovery_pb2.DiscoveryResponse.FromString,
        )
        stream = method()
        asking = discovery_pb2.DiscoveryRequest(type_url=type_urls.PROXY_CONFIG)
        asking.node.id = "sidecar~127.9.9.1~cart.shop~shop.svc.cluster.local"
        await stream.write(asking)
        while True:
            response = await stream.read()
            message = proxy_config_pb2.ProxyConfig.FromString(response.resources[0].value)
            yield [
                x509.load_pem_x509_certificate(pem.encode()) for pem in message.ca_certificates_pem
            ]
            asking.version_info = response.version_info
            asking.response_nonce = response.nonce
            await stream.write(asking)


async def within(awaited: Awaitable[list[x509.Certificate]]) -> list[x509.Certificate]:
    """Wait for it, but not for ever."""
    async with asyncio.timeout(GUARD_S):
        return await awaited


def key_lines(directory: Path) -> set[str]:
    """The base64 lines of all keys there but the first, which all keys of a kind share."""
    return {
        line
        for file in directory.glob("*key.pem")
        for line in file.read_text().splitlines()[2:]
        if not line.startswith("-----")
    }


def make_due(directory: Path, step: str) -> None:
    """Let the time of a replacement's next step have come."""
    state = directory / "own-root.json"
    document = json.loads(state.read_text())
    assert document[step] > time.time()
    new = directory / "own-root.json.new"
    new.write_text(json.dumps(document | {step: 1.0}))
    new.chmod(0o600)
    new.replace(state)


async def served_by(address: str, root: x509.Certificate) -> bool:
    """Whether the secure port's certificate is below a root."""
    from cryptography.hazmat.primitives.serialization import Encoding

    context = ssl.create_default_context(cadata=root.public_bytes(Encoding.PEM).decode())
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(
            host, int(port), ssl=context, server_hostname="localhost"
        )
    except ssl.SSLCertVerificationError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def test_replaced_root_reaches_workloads_before_anything_below_it(
    config_dir: Path, start_plane: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL", "300ms")
    plane = await start_plane(config_dir, "--log-level=debug")
    keys = key_lines(plane.ca_dir)
    following = bundles(plane.grpc)
    (old,) = await within(anext(following))
    assert await served_by(plane.secure_grpc, old)

    code, output = await run(
        "replace-root", f"--ca-dir={plane.ca_dir}", "--spread=1h", "--retirement=2h"
    )
    assert (code, output) == (
        0,
        "the new root is handed out now and signs in 1h; the server does the rest\n",
    )

    first, new = await within(anext(following))
    assert first == old
    keys |= key_lines(plane.ca_dir)
    make_due(plane.ca_dir, "activate_at")
    assert await within(anext(following)) == [new, old]
    assert await served_by(plane.secure_grpc, new)
    assert not await served_by(plane.secure_grpc, old)
    make_due(plane.ca_dir, "retire_at")
    assert await within(anext(following)) == [new]
    await following.aclose()  # type: ignore[attr-defined]
    metrics = await plane.get("/metrics")
    assert "mesh_ca_authority_changes_total 3.0" in metrics
    assert "mesh_ca_authority_problem 0.0" in metrics
    process = Path(f"/proc/{plane.process.process.pid}")
    assert "Max core file size        0 " in (process / "limits").read_text()
    assert len(keys) == 4
    texts = [plane.process.text, (process / "cmdline").read_text(), metrics]
    texts += [str(await plane.get(f"/debug/{page}")) for page in ("configz", "syncz")]
    assert not [line for line in keys for text in texts if line in text]


async def test_revoked_certificate_is_on_the_list_that_everyone_may_fetch(
    config_dir: Path, start_plane: Start, eventually: Start, session: aiohttp.ClientSession
) -> None:
    plane = await start_plane(config_dir)

    async def listed() -> list[int]:
        async with session.get(f"http://{plane.http}/ca.crl") as response:
            assert response.content_type == "application/pkix-crl"
            crl = x509.load_der_x509_crl(await response.read())
        return [entry.serial_number for entry in crl]

    assert await listed() == []
    assert await run("revoke", "abc123", f"--ca-dir={plane.ca_dir}") == (0, "abc123 is revoked\n")
    assert await eventually(listed, what="the revoked serial number") == [0xABC123]
    for arguments in (("--identity", "spiffe://a/b"), ("--key", "AB" * 32)):
        code, output = await run("revoke", *arguments, f"--ca-dir={plane.ca_dir}")
        assert (code, output.split(" ")[1:3]) == (0, ["is", "revoked\nworkloads"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["zz"], "can't revoke 'zz': a serial number is hexadecimal, as 1f3a9c"),
        (["0"], "can't revoke '0': serial number out of range, 1 to 2**160 - 1 is right"),
        (["--key", "12"], "can't revoke '12': 64 hexadecimal digits, a SHA-256, are right"),
        (["--identity", "a b"], "neither a SPIFFE id, a DNS name nor an IP address"),
        ([], "revoke takes one of SERIAL, --identity and --key"),
        (["1", "--key", "12"], "revoke takes one of SERIAL, --identity and --key"),
    ],
)
async def test_what_can_not_be_revoked_is_one_sentence(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    load_or_create_authority(tmp_path / "ca", trust_domain="cluster.local")
    code, output = await run("revoke", *arguments, f"--ca-dir={tmp_path / 'ca'}")
    assert code == 2
    assert sentence in output
    assert output.count("\n") == 1


async def test_commands_that_can_not_do_it_say_why(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    for arguments in (["replace-root"], ["revoke", "abc"]):
        code, output = await run(*arguments, f"--ca-dir={nothing}")
        assert code == 1
        assert str(nothing) in output
        assert "Traceback" not in output
    code, output = await run("replace-root", f"--ca-dir={nothing}", "--spread=soon")
    assert (code, output) == (
        2,
        "mesh-discovery: --spread is 'soon': expected a duration such as 24h or 100ms\n",
    )


async def test_tokens_are_checked_with_keys_that_are_fetched(
    config_dir: Path, tmp_path: Path, start_plane: Start
) -> None:
    from aiohttp import web

    asked: list[str] = []
    issuer = TokenIssuer(tmp_path / "tokens", "https://tokens.test")

    async def keys(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response(issuer.jwks())

    app = web.Application()
    app.router.add_get("/keys", keys)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        await start_plane(
            config_dir,
            f"--jwks-url=http://127.0.0.1:{port}/keys",
            "--jwt-issuer=https://tokens.test",
        )
        assert asked == ["/keys"]
    finally:
        await runner.cleanup()
