"""The command as its users meet it: a process with ports, signals, an exit code and sentences."""

import asyncio
import json
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from cryptography import x509

from documents import Documents
from mesh_ca import TokenIssuer, load_or_create_authority
from mesh_ca.testing import signing_request
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse
from planes import Plane, run_command

Start = Callable[..., Awaitable[Any]]


async def test_a_first_configuration_with_mistakes_ends_with_its_sentences(
    config_dir: Path, tmp_path: Path
) -> None:
    (config_dir / "a.yaml").write_text("kind: Servce\n")

    code, output = await run_command(
        tmp_path, "discovery", f"--configDir={config_dir}", "--grpcAddr=127.0.0.1:0",
        "--httpAddr=", "--secureGRPCAddr=", "--monitoringAddr=",
    )  # fmt: skip

    assert code == 1
    assert f"mesh-discovery: {config_dir}/a.yaml:1: kind: unknown kind" in output
    assert "Traceback" not in output


async def test_ports_in_use_are_all_named_with_their_flags(
    config_dir: Path, tmp_path: Path
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        ports = [each.getsockname()[1] for each in (one, two)]
        code, output = await run_command(
            tmp_path, "discovery", f"--config-dir={config_dir}", "--http-addr=",
            f"--grpc-addr=127.0.0.1:{ports[0]}", "--secure-grpc-addr=",
            f"--monitoring-addr=127.0.0.1:{ports[1]}",
        )  # fmt: skip

    assert code == 1
    assert output.splitlines() == [
        f"mesh-discovery: {flag}: can't listen on 127.0.0.1:{port}: Address already in use; "
        "free the port or give another address"
        for flag, port in zip(("--grpc-addr", "--monitoring-addr"), ports, strict=True)
    ]


async def test_settings_that_cannot_be_used_are_all_named(config_dir: Path, tmp_path: Path) -> None:
    code, output = await run_command(
        tmp_path, "discovery", f"--config-dir={config_dir}", "--grpc-addr=nowhere",
        "--secure-grpc-addr=", "--jwt-issuer=x", "--domain=Not.Lower",
        DEFAULT_WORKLOAD_CERT_TTL="1d", PILOT_DEBOUNCE_AFTER="fast", JWT_RULE="{",
    )  # fmt: skip

    assert code == 2
    for part in (
        "--grpc-addr is 'nowhere': expected host:port",
        "--jwks-file is missing",
        "--domain is 'Not.Lower'",
        "DEFAULT_WORKLOAD_CERT_TTL is '1d'",
        "PILOT_DEBOUNCE_AFTER is 'fast'",
        "both off",
    ):
        assert part in output


async def test_a_ca_directory_that_cannot_be_used_is_named(
    config_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "ca").write_text("a file")

    code, output = await run_command(
        tmp_path, "discovery", f"--config-dir={config_dir}", "--grpc-addr=127.0.0.1:0",
        "--http-addr=", "--secure-grpc-addr=127.0.0.1:0", "--monitoring-addr=", ROOT_CA_DIR="ca",
    )  # fmt: skip

    assert code == 1
    assert "Traceback" not in output
    assert "ca" in output


async def test_check_tells_what_is_wrong_or_that_all_is_good(
    config_dir: Path, tmp_path: Path, yaml: Documents
) -> None:
    (config_dir / "web.yaml").write_text(yaml.service("web", "127.0.0.1", 80, 8080))
    assert await run_command(tmp_path, "check", f"--config-dir={config_dir}") == (
        0,
        "1 object in 1 file is good\n",
    )

    (config_dir / "bad.yaml").write_text("kind: X")
    code, output = await run_command(tmp_path, "check", f"--config-dir={config_dir}")

    assert code == 1
    assert f"{config_dir}/bad.yaml:1: kind: unknown kind" in output


async def test_the_last_good_configuration_stays_and_the_mistake_is_shown_everywhere(
    config_dir: Path,
    start_plane: Start,
    eventually: Start,
    *,
    yaml: Documents,
    replace: Callable[[Path, str], None],
) -> None:
    file = config_dir / "web.yaml"
    file.write_text(yaml.service("web", "127.0.0.1", 80, 8080))
    plane = await start_plane(config_dir)

    async def configz(*, good: bool) -> Any:
        page = await plane.get("/debug/configz")
        return page if page["up_to_date"] is good else None

    replace(file, "spec: [\n")
    page = await eventually(lambda: configz(good=False), what="the mistake on /debug/configz")

    assert page["problems"][0].startswith(f"{file}:2: not valid YAML")
    assert [each["host"] for each in await plane.get("/debug/registryz")] == [
        "web.default.svc.cluster.local"
    ]
    assert "mesh_discovery_config_problems 1.0" in await plane.get("/metrics")

    replace(file, yaml.service("shop", "127.0.0.1", 80, 8080))
    await eventually(lambda: configz(good=True), what="the good configuration")

    async def serves_the_new_one() -> bool:
        found = [each["host"] for each in await plane.get("/debug/registryz")]
        return found == ["shop.default.svc.cluster.local"]

    await eventually(serves_the_new_one, what="the new service")
    messages = [json.loads(line)["msg"] for line in plane.process.output if line.startswith("{")]
    assert messages.count("configuration file is wrong, its last good content is served") == 1
    assert messages.count("configuration file is no longer wrong") == 1


async def test_it_is_ready_tells_its_version_and_stops_on_sigterm(
    config_dir: Path, start_plane: Start, session: aiohttp.ClientSession
) -> None:
    plane = await start_plane(config_dir)

    async with session.get(f"http://{plane.http}/ready") as response:
        assert response.status == 200
    assert (await plane.get("/version")).strip()
    assert await plane.get("/debug/syncz") == []
    assert "no proxy 'x' is connected" in await plane.get("/debug/config_dump?proxyID=x")
    assert await plane.process.stop() == 0
    assert "Traceback" not in plane.process.text


async def secure_channel(plane: Plane) -> grpc.aio.Channel:
    authority = load_or_create_authority(plane.ca_dir, trust_domain="cluster.local")
    credentials = grpc.ssl_channel_credentials(authority.root_pem)
    return grpc.aio.secure_channel(plane.secure_grpc, credentials)


async def test_the_secure_port_signs_for_whom_the_token_names(
    config_dir: Path, tmp_path: Path, start_plane: Start
) -> None:
    issuer = TokenIssuer(tmp_path / "tokens", "https://tokens.test")
    jwks = tmp_path / "jwks.json"
    issuer.write_jwks(jwks)
    plane = await start_plane(config_dir, f"--jwks-file={jwks}", "--jwt-issuer=https://tokens.test")
    _, csr = signing_request()

    async with await secure_channel(plane) as channel:
        create = channel.unary_unary(
            CREATE_CERTIFICATE,
            request_serializer=IstioCertificateRequest.SerializeToString,
            response_deserializer=IstioCertificateResponse.FromString,
        )
        request = IstioCertificateRequest(csr=csr.decode())
        bearer = ("authorization", f"Bearer {issuer.issue('shop', 'cart')}")
        answer = await create(request, metadata=[bearer])
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await create(request)

    leaf = x509.load_pem_x509_certificate(answer.cert_chain[0].encode())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [
        "spiffe://cluster.local/ns/shop/sa/cart"
    ]
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_the_serving_certificate_follows_the_discovery_address(
    config_dir: Path, start_plane: Start, eventually: Start
) -> None:
    plane = await start_plane(config_dir)
    authority = load_or_create_authority(plane.ca_dir, trust_domain="cluster.local")
    context = ssl.create_default_context(cadata=authority.root_pem.decode())
    host, _, port = plane.secure_grpc.rpartition(":")

    async def trusted_as(name: str) -> bool:
        try:
            _, writer = await asyncio.open_connection(
                host, int(port), ssl=context, server_hostname=name
            )
        except ssl.SSLCertVerificationError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    for name in ("istiod.istio-system.svc", "istio-pilot.istio-system.svc", "localhost"):
        assert await trusted_as(name)
    assert not await trusted_as("mesh.example.com")
    (config_dir / "mesh.yaml").write_text(
        "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec:\n"
        "  defaultConfig: {discoveryAddress: 'mesh.example.com:15012'}\n"
    )
    await eventually(lambda: trusted_as("mesh.example.com"), what="a certificate for the new name")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "discovery",
            ("else ./etc/cacerts]", "[env TOKEN_AUDIENCES; else istio-ca]"),
        ),
        ("replace-root", ("--ca-dir",)),
    ],
)
async def test_help_loses_no_words(command: str, words: tuple[str, ...], tmp_path: Path) -> None:
    _, output = await run_command(tmp_path, command, "--help")

    text = " ".join(output.split())
    assert [each for each in words if each not in text] == []


async def test_a_full_log_disk_changes_nothing(
    config_dir: Path,
    tmp_path: Path,
    session: aiohttp.ClientSession,
    eventually: Start,
    free_port: Callable[..., int],
) -> None:
    http = f"127.0.0.1:{free_port('127.0.0.1')}"
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mesh_discovery", "discovery", f"--config-dir={config_dir}"),
            *(f"--http-addr={http}", "--grpc-addr=127.0.0.1:0", "--secure-grpc-addr="),
            "--monitoring-addr=",
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=full,
        )
    finally:
        os.close(full)
    try:

        async def ready() -> bool:
            async with session.get(f"http://{http}/ready") as response:
                return response.status == 200

        await eventually(ready, what="readiness")
    finally:
        process.terminate()
        output, _ = await process.communicate()

    assert (process.returncode, output) == (0, b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="a hosts file of one's own takes root")
async def test_a_host_name_that_is_not_there_is_reported_in_a_sentence(
    config_dir: Path, tmp_path: Path
) -> None:
    # By the file alone: what a name server says, and whether it does in time, is not ours.
    sources = tmp_path / "nsswitch.conf"
    sources.write_text("hosts: files\n")
    mounts = (
        "mount --bind /dev/null /etc/hosts && "
        f'mount --bind "{sources}" /etc/nsswitch.conf && exec "$@"'
    )
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--mount", "sh", "-c", mounts, "sh"),
        *(sys.executable, "-m", "mesh_discovery", "discovery", f"--config-dir={config_dir}"),
        *("--http-addr=localhost:0", "--grpc-addr=127.0.0.1:0", "--secure-grpc-addr="),
        "--monitoring-addr=",
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()

    assert process.returncode == 1
    assert output.decode() == (
        "mesh-discovery: --http-addr: can't listen on localhost:0: its host name can't be resolved "
        "(Name or service not known); give an IP address, as 127.0.0.1:0\n"
    )
