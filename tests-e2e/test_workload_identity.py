"""Where an agent's certificate comes from, and to whom it is shown: each way in, from its start.

The real `mesh-agent proxy` with its Envoy; a control plane and an authority that note all they
are sent; a client of the secret socket that asks as Envoy does.
"""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from envoy.service.discovery.v3 import discovery_pb2

from certclient import Certificate, OutputFilesConfig, SpiffeId, write_files
from certclient.testing import FakeAuthority, Fault, issued
from mesh_e2e import (
    ROOT,
    SDS_SOCKET,
    TOKEN,
    Agent,
    Servers,
    Target,
    children_of,
    environment_of,
    own_address,
    put,
    run_command,
    running_agent,
    send,
    servers,
)
from mesh_sds import SdsConfig, TlsCertificate, serving
from mesh_sds.testing import FakeSecrets, SecretSubscriber
from mesh_testkit import until
from xds_proxy.testing import ControlPlaneStream

WEB = SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/web")
ADDRESS, OTHER_ADDRESS = own_address(1), own_address(2)
FILES = ("cert-chain.pem", "key.pem", "root-cert.pem")
RENEWED_SOON = {"SECRET_TTL": "40s", "SECRET_GRACE_PERIOD_RATIO": "0.95"}
"""Every two seconds or so; a slow machine may take the rest of a certificate's life for it."""


@pytest.fixture
def workload() -> Iterator[Path]:
    """A directory for an agent, short enough for the sockets below it."""
    with tempfile.TemporaryDirectory(prefix="web-") as name:
        yield Path(name)


def leaf(chain_pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificates(chain_pem)[0]


def identity(chain_pem: bytes) -> list[str]:
    names = leaf(chain_pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def on_platform(workload: Path, theirs: Servers) -> None:
    put(workload, ROOT, theirs.root_pem)
    put(workload, TOKEN, "one\n")


async def all_of(stream: SecretSubscriber, *names: str) -> dict[str, bytes]:
    """Read until each of these came, in whatever number of responses, and say yes to each."""
    got: dict[str, bytes] = {}
    while not got.keys() >= set(names):
        response = await stream.read()
        await stream.accept(response)
        got |= response.secrets
    return got


async def node_of(stream: ControlPlaneStream) -> Any:
    """Return the node that Envoy tells of itself in its first request."""
    first = await stream.receive()
    assert first is not None
    kind: Any = (
        discovery_pb2.DeltaDiscoveryRequest
        if stream.method.startswith("Delta")
        else discovery_pb2.DiscoveryRequest
    )
    return kind.FromString(first).node


@pytest.mark.slow
async def test_with_a_token_secrets_are_served_and_the_token_is_read_anew_for_each_call(
    tmp_path: Path, workload: Path
) -> None:
    async with servers(tmp_path) as theirs:
        on_platform(workload, theirs)
        environment = environment_of(theirs, ADDRESS, **RENEWED_SOON)
        async with (
            running_agent(workload, environment) as agent,
            agent.asked_for("default", "ROOTCA") as secrets,
        ):
            first = await all_of(secrets, "default", "ROOTCA")
            assert identity(first["default"]) == [str(WEB)]
            assert first["ROOTCA"] == theirs.authority.root_pem
            assert list(first) == ["ROOTCA", "default"]
            assert theirs.ca.metadata[0]["authorization"] == "Bearer one"
            stream = await theirs.wait_stream()
            assert stream.metadata["authorization"] == "Bearer one"

            put(workload, TOKEN, "two\n")
            stream.end()
            stream = await theirs.wait_stream()
            assert stream.metadata["authorization"] == "Bearer two"
            second = await secrets.read()
            assert list(second.secrets) == ["default"]
            await until(
                lambda: theirs.ca.metadata[-1]["authorization"] == "Bearer two",
                what="a certificate asked for with the new token",
                seen=lambda: [each["authorization"] for each in theirs.ca.metadata],
            )


@pytest.mark.parametrize(
    ("settings", "header", "of_kind"),
    [
        ({}, "EC PRIVATE KEY", lambda key: key.curve.name == "secp256r1"),
        (
            {"ECC_SIGNATURE_ALGORITHM": "ECDSA", "ECC_CURVE": "P384", "PKCS8_KEY": "true"},
            "PRIVATE KEY",
            lambda key: key.curve.name == "secp384r1",
        ),
        (
            {"WORKLOAD_RSA_KEY_SIZE": "2048"},
            "RSA PRIVATE KEY",
            lambda key: key.key_size == 2048,
        ),
        (
            {"WORKLOAD_RSA_KEY_SIZE": "3072", "PKCS8_KEY": "true"},
            "PRIVATE KEY",
            lambda key: key.key_size == 3072,
        ),
    ],
    ids=["P-256", "P-384 PKCS#8", "RSA", "RSA PKCS#8"],
)
async def test_the_key_is_of_the_kind_asked_for_in_the_encoding_asked_for(
    tmp_path: Path,
    workload: Path,
    settings: dict[str, str],
    header: str,
    of_kind: Callable[[Any], bool],
) -> None:
    async with servers(tmp_path) as theirs:
        on_platform(workload, theirs)
        environment = environment_of(theirs, ADDRESS, OUTPUT_CERTS="out", **settings)
        async with (
            running_agent(workload, environment) as agent,
            agent.asked_for("default") as secrets,
        ):
            served = (await secrets.read()).secrets["default"]
            await until((workload / "out/cert-chain.pem").is_file, what="the files")
    assert (workload / "out/cert-chain.pem").read_bytes() == served
    pem = (workload / "out/key.pem").read_bytes()
    assert pem.startswith(f"-----BEGIN {header}-----".encode())
    key = load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
    assert of_kind(key)
    assert key.public_key() == leaf(served).public_key()


def mount(directory: Path, certificate: Certificate) -> None:
    write_files(OutputFilesConfig(directory=directory, atomic=True), certificate)


@pytest.mark.parametrize(
    ("place", "settings", "token"),
    [
        ("etc/certs", {"FILE_MOUNTED_CERTS": "true"}, None),
        ("etc/certs", {"FILE_MOUNTED_CERTS": "true"}, "bogus"),
        ("etc/certs", {}, None),
        ("var/run/secrets/workload-spiffe-credentials", {}, None),
    ],
    ids=["asked to", "with a bogus token", "because they are there", "well-known directory"],
)
async def test_mounted_certificates_are_used_and_no_authority_is_asked(
    tmp_path: Path, workload: Path, place: str, settings: dict[str, str], token: str | None
) -> None:
    mounting = FakeAuthority()
    async with servers(tmp_path, client_roots=mounting.root_pem) as theirs:
        first = await issued(mounting, WEB)
        mount(workload / place, first)
        put(workload, ROOT, theirs.root_pem)
        if token is not None:
            put(workload, TOKEN, token)
        root = str(workload / ROOT)
        environment = environment_of(theirs, ADDRESS, XDS_ROOT_CA=root, **settings)
        async with (
            running_agent(workload, environment) as agent,
            agent.asked_for("default", "ROOTCA") as secrets,
        ):
            served = await all_of(secrets, "default", "ROOTCA")
            assert served == {"default": first.chain_pem, "ROOTCA": mounting.root_pem}
            # This server's handshake asks for a certificate of the mounting authority.
            stream = await theirs.wait_stream()
            assert "authorization" not in stream.metadata
            mount(workload / place, second := await issued(mounting, WEB))
            assert (await secrets.read()).secrets == {"default": second.chain_pem}
        assert theirs.ca.asked_at == []


async def test_both_servers_are_verified_by_the_system_s_roots_when_asked_for(
    tmp_path: Path, workload: Path
) -> None:
    async with servers(tmp_path) as theirs:
        put(workload, TOKEN, "token")
        put(workload, Path("machine/roots.pem"), theirs.root_pem)
        environment = environment_of(
            theirs,
            ADDRESS,
            CA_ROOT_CA="SYSTEM",
            XDS_ROOT_CA="SYSTEM",
            SSL_CERT_FILE=str(workload / "machine/roots.pem"),
        )
        async with (
            running_agent(workload, environment) as agent,
            agent.asked_for("default") as secrets,
        ):
            assert identity((await secrets.read()).secrets["default"]) == [str(WEB)]
            await theirs.wait_stream()


async def test_a_healthy_socket_of_another_program_is_used_and_no_authority_is_asked(
    tmp_path: Path, workload: Path
) -> None:
    foreign = FakeSecrets()
    foreign.set(default=TlsCertificate(chain_pem=b"theirs", private_key_pem=b"key"))
    async with (
        servers(tmp_path) as theirs,
        serving(SdsConfig(socket_path=workload / SDS_SOCKET), foreign),
    ):
        on_platform(workload, theirs)
        async with running_agent(workload, environment_of(theirs, ADDRESS)) as agent:
            await theirs.wait_stream()
            async with agent.asked_for("default") as secrets:
                assert (await secrets.read()).secrets == {"default": b"theirs"}
            assert (await agent.status())["certificate"]["served_by"].endswith(str(SDS_SOCKET))
        assert (workload / SDS_SOCKET).is_socket(), "it was theirs and is gone"
        assert theirs.ca.asked_at == []


@pytest.mark.parametrize("served", [True, False], ids=["healthy", "stale"])
async def test_the_control_plane_is_sent_that_a_socket_for_gateway_credentials_is_healthy(
    tmp_path: Path,
    workload: Path,
    served: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    path = workload / "var/run/secrets/credential-uds/socket"
    async with servers(tmp_path) as theirs, AsyncExitStack() as stack:
        if served:
            await stack.enter_async_context(serving(SdsConfig(socket_path=path), FakeSecrets()))
        else:
            leave_a_dead_socket(path)
        on_platform(workload, theirs)
        async with running_agent(workload, environment_of(theirs, ADDRESS)):
            node = await node_of(await theirs.wait_stream())
            credential = node.metadata.fields["credential"].string_value
            assert credential == ("true" if served else "")


def leave_a_dead_socket(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


async def test_a_stale_socket_is_replaced_and_served(tmp_path: Path, workload: Path) -> None:
    leave_a_dead_socket(workload / SDS_SOCKET)
    async with servers(tmp_path) as theirs:
        on_platform(workload, theirs)
        async with running_agent(workload, environment_of(theirs, ADDRESS)) as agent:
            await theirs.wait_stream()
            async with agent.asked_for("default") as secrets:
                assert identity((await secrets.read()).secrets["default"]) == [str(WEB)]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("spire", "no process serves"),
        ("../spire", "it must be the name of a file"),
        ("/run/spire", "it must be the name of a file"),
    ],
)
async def test_a_socket_of_another_name_has_to_be_there_and_to_be_a_name(
    tmp_path: Path, workload: Path, name: str, sentence: str
) -> None:
    async with servers(tmp_path) as theirs:
        on_platform(workload, theirs)
        environment = environment_of(theirs, ADDRESS, WORKLOAD_IDENTITY_SOCKET_FILE=name)
        status, _, errors = await run_command(
            *("mesh_agent", "proxy", "sidecar"), environment=environment, directory=workload
        )
    assert status == 1
    assert len(errors.splitlines()) == 1
    assert errors.startswith("mesh-agent: ")
    assert sentence in errors


@pytest.mark.slow
async def test_a_machine_starts_with_a_token_and_renews_by_its_certificate(
    tmp_path: Path, workload: Path
) -> None:
    """What it is known by and what it writes are the same files: never its own input."""
    authority = FakeAuthority()
    settings = {"PROV_CERT": "etc/certs", "OUTPUT_CERTS": "etc/certs"}
    chain = workload / "etc/certs/cert-chain.pem"
    async with servers(tmp_path, authority=authority) as theirs:
        put(workload, Path("etc/certs/root-cert.pem"), theirs.root_pem)
        put(workload, ROOT, theirs.root_pem)
        put(workload, TOKEN, "first-boot")
        roots = {"CA_ROOT_CA": str(workload / ROOT), "XDS_ROOT_CA": str(workload / ROOT)}
        environment = environment_of(theirs, ADDRESS, SECRET_TTL="1h", **settings, **roots)
        async with running_agent(workload, environment):
            await until(chain.is_file, what="the first certificate")
            assert theirs.ca.metadata[0]["authorization"] == "Bearer first-boot"
    first = chain.read_bytes()
    (workload / TOKEN).unlink()
    async with servers(
        tmp_path,
        authority=authority,
        client_roots=authority.root_pem,
        ca_client_roots=authority.root_pem,
    ) as theirs:
        # From here on it has nothing else to be known by.
        environment = environment_of(theirs, ADDRESS, **RENEWED_SOON, **settings, **roots)
        async with running_agent(workload, environment) as agent:
            await theirs.ca.wait_asked(1)
            stream = await theirs.wait_stream()
            assert "authorization" not in stream.metadata
            await until(lambda: chain.read_bytes() != first, what="the second certificate")
            second = chain.read_bytes()
            await until(lambda: chain.read_bytes() != second, what="its rotation")
            async with agent.asked_for("default") as secrets:
                served = (await secrets.read()).secrets["default"]
            assert identity(served) == [str(WEB)]
        assert len(theirs.ca.asked_at) >= 2
        assert all("authorization" not in sent for sent in theirs.ca.metadata)


async def test_clients_that_come_and_go_cost_no_certificate(tmp_path: Path, workload: Path) -> None:
    """One that lives long is served as it is; neither it nor what was provisioned is touched."""
    provisioning = FakeAuthority()
    async with servers(tmp_path) as theirs:
        on_platform(workload, theirs)
        write_files(
            OutputFilesConfig(directory=workload / "given"), await issued(provisioning, WEB)
        )
        settings = {"PROV_CERT": "given", "OUTPUT_CERTS": "out", "CA_ROOT_CA": str(workload / ROOT)}
        environment = environment_of(
            theirs, ADDRESS, XDS_ROOT_CA=str(workload / ROOT), SECRET_TTL="24h", **settings
        )
        async with running_agent(workload, environment) as agent:
            await until((workload / "out/cert-chain.pem").is_file, what="the files")
            before = states(workload / "given") | states(workload / "out")
            seen = set()
            for _ in range(5):
                async with agent.asked_for("default", "ROOTCA") as secrets:
                    seen.add((await all_of(secrets, "default", "ROOTCA"))["default"])
            assert seen == {(workload / "out/cert-chain.pem").read_bytes()}
            assert states(workload / "given") | states(workload / "out") == before
        assert len(theirs.ca.asked_at) == 1


def states(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path): ((status := path.stat()).st_ino, status.st_mtime_ns, path.read_bytes())
        for path in (directory / name for name in FILES)
    }


@pytest.mark.slow
async def test_an_authority_that_starts_after_the_agent_is_found(
    tmp_path: Path, workload: Path, free_port: Callable[..., int]
) -> None:
    later = f"127.0.0.1:{free_port()}"
    async with servers(tmp_path) as theirs:
        on_platform(workload, theirs)
        environment = environment_of(theirs, ADDRESS, ca_address=later, OUTPUT_CERTS="out")
        async with (
            running_agent(workload, environment) as agent,
            agent.asked_for("default", "ROOTCA") as secrets,
        ):
            waiting = asyncio.create_task(all_of(secrets, "default", "ROOTCA"))
            await until(
                lambda: "certificate request failed" in agent.log.read_text(), what="an attempt"
            )
            assert not waiting.done()
            certificate = (await agent.status())["certificate"]
            assert "connection refused" in certificate["last_error"]
            async with servers(tmp_path, ca_address=later) as back:
                assert identity((await waiting)["default"]) == [str(WEB)]
                assert len(back.ca.asked_at) == 1
            assert agent.process.returncode is None


async def test_an_unusable_certificate_does_not_replace_the_one_that_works(
    tmp_path: Path, workload: Path
) -> None:
    async with servers(tmp_path) as theirs:
        on_platform(workload, theirs)
        environment = environment_of(theirs, ADDRESS, **RENEWED_SOON)
        async with running_agent(workload, environment) as agent:
            async with agent.asked_for("default") as secrets:
                await all_of(secrets, "default")
            theirs.authority.answer_wrongly(Fault.CODE_SIGNING)
            await until(
                lambda: "its extended key usage has no clientAuth" in agent.log.read_text(),
                what="the refusal of what the authority answered",
            )
            async with agent.asked_for("default") as secrets:
                kept = leaf((await all_of(secrets, "default"))["default"])
                certificate = (await agent.status())["certificate"]
                assert certificate["serial"] == f"{kept.serial_number:x}"
                assert "not for use as server and client" in certificate["last_error"]
                theirs.authority.answer()
                next_one = leaf((await all_of(secrets, "default"))["default"])
            assert next_one.serial_number != kept.serial_number
            for each in (kept, next_one):
                purposes = each.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
                assert list(purposes) != [ExtendedKeyUsageOID.CODE_SIGNING]


async def test_two_agents_share_no_socket(tmp_path: Path, workload: Path) -> None:
    async with servers(tmp_path) as theirs, AsyncExitStack() as stack:
        serials, names = set(), []
        for name, address in (("web", ADDRESS), ("cart", OTHER_ADDRESS)):
            directory = workload / name
            on_platform(directory, theirs)
            environment = environment_of(theirs, address, SERVICE_ACCOUNT=name)
            agent = await stack.enter_async_context(running_agent(directory, environment))
            await theirs.wait_stream()
            assert (directory / "etc/istio/proxy/XDS").is_socket()
            secrets = await stack.enter_async_context(agent.asked_for("default"))
            served = (await secrets.read()).secrets["default"]
            serials.add(leaf(served).serial_number)
            names += identity(served)
        assert len(serials) == 2
        assert names == [f"spiffe://cluster.local/ns/shop/sa/{name}" for name in ("web", "cart")]


GRPC_CLIENT = """\
import grpc
channel = grpc.insecure_channel("xds:///shop.example:80")
grpc.channel_ready_future(channel).result(timeout=60)
"""


async def test_a_grpc_application_needs_no_envoy(tmp_path: Path, workload: Path) -> None:
    """It reads the bootstrap, asks through the agent's socket, and its files are kept fresh."""
    async with servers(tmp_path) as theirs:
        on_platform(workload, theirs)
        settings = {"DISABLE_ENVOY": "true", "OUTPUT_CERTS": "out", **RENEWED_SOON}
        environment = environment_of(theirs, ADDRESS, ENVOY_PATH="/no/such/envoy", **settings)
        async with running_agent(workload, environment) as agent:
            chain = workload / "out/cert-chain.pem"
            await until(chain.is_file, what="the files")
            await until_ready(agent, wanted=True)
            first = chain.read_bytes()
            bootstrap = workload / "etc/istio/proxy/grpc-bootstrap.json"
            envoy = (await agent.status())["envoy"]
            assert envoy == {
                "state": "none",
                "grpc_bootstrap": str(bootstrap.relative_to(workload)),
            }
            for _ in range(2):  # an application that goes does not take the agent with it
                application = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", GRPC_CLIENT),
                    env={**os.environ, "GRPC_XDS_BOOTSTRAP": str(bootstrap)},
                )
                try:
                    stream = await theirs.wait_stream()
                    assert stream.metadata["authorization"] == "Bearer one"
                    node = await node_of(stream)
                    assert node.id == f"sidecar~{ADDRESS}~web-1.shop~shop.svc.cluster.local"
                    assert node.metadata.fields["GENERATOR"].string_value == "grpc"
                finally:
                    application.kill()
                    await application.wait()
            await until(lambda: chain.read_bytes() != first, what="a rotation")
            assert identity(chain.read_bytes()) == [str(WEB)]
            assert children_of(agent.process.pid) == ()
            assert not agent.sds_socket.exists()
            bootstrap.unlink()
            await until_ready(agent, wanted=False)


async def until_ready(agent: Agent, *, wanted: bool) -> None:
    target = Target(host=agent.address, port=15020, url="/healthz/ready")
    seen: list[tuple[int, bytes]] = []

    async def is_as_wanted() -> bool:
        seen[:] = [await send(target)]
        return seen[0][0] == (200 if wanted else 503)

    await until(is_as_wanted, what=f"readiness to be {wanted}", seen=lambda: seen)
