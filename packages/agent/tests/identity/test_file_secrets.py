"""Secrets that a gateway's listener names by their files, through a real Envoy."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest
from cryptography import x509

from certclient import Certificate, SpiffeId
from certclient.testing import FakeAuthority, issued
from mesh_agent import AgentConfig, Flags, load_config
from mesh_agent.identity._workload_secrets import OwnSecrets, workload_secrets
from mesh_sds.testing import subscriber
from mesh_testkit import find_free_port, until

GUARD_S = 60.0
GATEWAY = SpiffeId.parse("spiffe://cluster.local/ns/edge/sa/gateway")


def put(directory: Path, certificate: Certificate) -> None:
    """Replace files as most programs do that renew certificates."""
    directory.mkdir(exist_ok=True)
    for name, content in (
        ("key.pem", certificate.private_key_pem),
        ("root.pem", certificate.trust_bundle_pem),
        ("cert.pem", certificate.chain_pem),
    ):
        (directory / f".{name}").write_bytes(content)
        (directory / f".{name}").rename(directory / name)


def config_in(directory: Path, **environ: str) -> AgentConfig:
    for name in ("var/run/secrets/tokens/istio-token", "var/run/secrets/istio/root-cert.pem"):
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_text("x")
    return load_config(
        Flags(envoy_path="/bin/true"),
        environ={
            "PROXY_CONFIG": '{"discoveryAddress": "127.0.0.1:9"}',
            "INSTANCE_IP": "127.0.0.1",
            **environ,
        },
        directory=directory,
        version="1",
    )


async def certificate() -> Certificate:
    return await issued(FakeAuthority(), GATEWAY)


def gateway(socket_path: Path, port: int, names: tuple[str, str]) -> dict[str, object]:
    def secret(name: str) -> dict[str, object]:
        source = {
            "resource_api_version": "V3",
            "initial_fetch_timeout": "0s",
            "api_config_source": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "sds-grpc"}}],
            },
        }
        return {"name": name, "sds_config": source}

    types = "type.googleapis.com/envoy.extensions"
    tls = {
        "@type": f"{types}.transport_sockets.tls.v3.DownstreamTlsContext",
        "require_client_certificate": True,
        "common_tls_context": {
            "tls_certificate_sds_secret_configs": [secret(names[0])],
            "validation_context_sds_secret_config": secret(names[1]),
        },
    }
    echo = {"@type": f"{types}.filters.network.echo.v3.Echo"}
    http2 = {
        "@type": f"{types}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    pipe = {"endpoint": {"address": {"pipe": {"path": str(socket_path)}}}}
    return {
        "node": {"id": "gateway", "cluster": "test"},
        "static_resources": {
            "listeners": [
                {
                    "name": "gateway",
                    "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
                    "filter_chains": [
                        {
                            "filters": [{"name": "echo", "typed_config": echo}],
                            "transport_socket": {"name": "tls", "typed_config": tls},
                        }
                    ],
                }
            ],
            "clusters": [
                {
                    "name": "sds-grpc",
                    "connect_timeout": "1s",
                    "typed_extension_protocol_options": {
                        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2
                    },
                    "load_assignment": {
                        "cluster_name": "sds-grpc",
                        "endpoints": [{"lb_endpoints": [pipe]}],
                    },
                }
            ],
        },
    }


@asynccontextmanager
async def running_envoy(
    binary: Path, directory: Path, config: dict[str, object]
) -> AsyncIterator[None]:
    path = directory / "bootstrap.json"
    path.write_text(json.dumps(config))
    with (directory / "envoy.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            binary, "-c", path, "--concurrency", "1", "--disable-hot-restart", stderr=log
        )
        try:
            yield
        finally:
            process.kill()
            await process.wait()


async def serial_at(port: int, client: Path) -> int | None:
    """The serial of the certificate that the server shows to this client; None if it refuses."""
    context = ssl.create_default_context(cafile=client / "root.pem")
    context.check_hostname = False
    context.load_cert_chain(client / "cert.pem", client / "key.pem")
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except OSError:
        return None
    try:
        # In TLS 1.3 it is the first answer that tells the client that it was let in.
        writer.write(b"ok")
        await reader.readexactly(2)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(shown).serial_number
    except (OSError, asyncio.IncompleteReadError):
        return None
    finally:
        writer.close()


async def is_shown(port: int, client: Path, serial: int) -> None:
    shown = await serial_at(port, client)
    while shown != serial:
        await asyncio.sleep(0.05)
        shown = await serial_at(port, client)


async def test_a_gateway_gets_and_follows_the_files_that_it_names(
    socket_dir: Path, envoy_binary: Path
) -> None:
    authority = FakeAuthority()
    files = socket_dir / "files"
    put(files, first := await issued(authority, GATEWAY))
    config = config_in(socket_dir)
    port = find_free_port()
    names = f"file-cert:{files / 'cert.pem'}~{files / 'key.pem'}", f"file-root:{files / 'root.pem'}"
    async with (
        asyncio.timeout(GUARD_S),
        workload_secrets(config) as secrets,
        running_envoy(envoy_binary, socket_dir, gateway(config.secrets.socket_path, port, names)),
    ):
        assert isinstance(secrets, OwnSecrets)
        await is_shown(port, files, first.serial)
        for _ in range(2):
            put(files, new := await issued(authority, GATEWAY))
            await is_shown(port, files, new.serial)
        # What is not whole leaves what was good in use.
        (files / "cert.pem").unlink()
        os.mkfifo(files / "cert.pem")
        await asyncio.sleep(0)
        (files / "cert.pem").unlink()
        put(files, last := await issued(authority, GATEWAY))
        await is_shown(port, files, last.serial)


async def test_a_root_file_that_is_missing_is_answered_once_it_is_there(socket_dir: Path) -> None:
    config = config_in(socket_dir)
    name = f"file-root:{socket_dir / 'files' / 'root.pem'}"
    async with asyncio.timeout(GUARD_S), workload_secrets(config):
        async with subscriber(config.secrets.socket_path) as envoy:
            await envoy.ask(name)
            put(socket_dir / "files", issued := await certificate())
            assert (await envoy.read()).secrets == {name: issued.trust_bundle_pem}


async def test_the_roots_of_the_machine_are_answered(socket_dir: Path) -> None:
    config = config_in(socket_dir)
    async with asyncio.timeout(GUARD_S), workload_secrets(config):
        async with subscriber(config.secrets.socket_path) as envoy:
            await envoy.ask("file-root:system")
            assert b"BEGIN CERTIFICATE" in (await envoy.read()).secrets["file-root:system"]


async def test_our_own_output_is_not_answered(socket_dir: Path) -> None:
    output = socket_dir / "out"
    put(output, await certificate())
    put(socket_dir / "files", issued := await certificate())
    (socket_dir / "link").symlink_to("out")
    config = config_in(socket_dir, OUTPUT_CERTS=str(output))
    theirs = f"file-root:{socket_dir / 'files' / 'root.pem'}"
    async with asyncio.timeout(GUARD_S), workload_secrets(config):
        async with subscriber(config.secrets.socket_path) as envoy:
            await envoy.ask(f"file-root:{socket_dir / 'link' / 'root.pem'}", theirs)
            assert (await envoy.read()).secrets == {theirs: issued.trust_bundle_pem}


async def test_a_name_that_is_not_served_here_is_reported_once(
    socket_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_in(socket_dir)
    async with asyncio.timeout(GUARD_S), workload_secrets(config):
        for _ in range(2):
            async with subscriber(config.secrets.socket_path) as envoy:
                await envoy.ask("kubernetes://gateway", "file-root:system")
                assert "kubernetes://gateway" not in (await envoy.read()).secrets
    records = [
        each for each in caplog.records if getattr(each, "secret", "") == "kubernetes://gateway"
    ]
    assert [each.levelname for each in records] == ["WARNING"]


async def test_files_are_not_read_any_more_when_their_envoy_has_left(socket_dir: Path) -> None:
    config = config_in(socket_dir)
    async with asyncio.timeout(GUARD_S), workload_secrets(config) as secrets:
        assert isinstance(secrets, OwnSecrets)
        files = secrets.files
        assert files is not None
        async with subscriber(config.secrets.socket_path) as envoy:
            await envoy.ask("file-root:system", *(f"file-root:/no/{n}" for n in range(90)))
            await envoy.read()
            await until(lambda: len(files.status.states) == 91, what="all are read")
        files.read_again()
        await until(lambda: not files.status.states, what="none is read")


async def test_who_asks_for_too_many_names_is_refused_and_others_are_served(
    socket_dir: Path,
) -> None:
    config = config_in(socket_dir)
    async with asyncio.timeout(GUARD_S), workload_secrets(config):
        async with subscriber(config.secrets.socket_path) as greedy:
            await greedy.ask(*(f"file-root:/no/{n}" for n in range(101)))
            with pytest.raises(grpc.aio.AioRpcError, match=r"101 names .* at most 100"):
                await greedy.read()
        async with subscriber(config.secrets.socket_path) as envoy:
            await envoy.ask("file-root:system")
            await envoy.read()
