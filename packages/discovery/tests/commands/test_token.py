"""Trying a control plane by hand: a token and its key set of one command, up to a certificate."""

import asyncio
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509

from mesh_ca.testing import signing_request
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse

Start = Callable[..., Awaitable[Any]]


async def token(cwd: Path, *arguments: str) -> tuple[int, list[str]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mesh_discovery", "token", *arguments),
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode().splitlines()


@pytest.mark.parametrize("signers", ["0", "2"])
async def test_a_token_of_one_command_gets_a_certificate(
    config_dir: Path, tmp_path: Path, start_plane: Start, signers: str
) -> None:
    code, lines = await token(tmp_path, "--namespace=shop", "--service-account=cart")
    assert code == 0
    assert lines[0] == "tokens/token is a token of the service account shop/cart for 1 d"
    words = lines[1].split()
    keys = words[words.index("discovery") + 1 : -2]
    plane = await start_plane(config_dir, f"--ca-signers={signers}", *keys)
    await token(tmp_path, "--namespace=shop", "--service-account=later", "--output=a/b/later")
    _, csr = signing_request()

    names = []
    roots = (plane.ca_dir / "root-cert.pem").read_bytes()
    async with grpc.aio.secure_channel(
        plane.secure_grpc, grpc.ssl_channel_credentials(roots)
    ) as channel:
        create = channel.unary_unary(
            CREATE_CERTIFICATE,
            request_serializer=IstioCertificateRequest.SerializeToString,
            response_deserializer=IstioCertificateResponse.FromString,
        )
        for file in ("tokens/token", "a/b/later"):
            bearer = ("authorization", f"Bearer {(tmp_path / file).read_text()}")
            answer = await create(IstioCertificateRequest(csr=csr.decode()), metadata=[bearer])
            leaf = x509.load_pem_x509_certificate(answer.cert_chain[0].encode())
            name = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            names += name.get_values_for_type(x509.UniformResourceIdentifier)

    assert names == [f"spiffe://cluster.local/ns/shop/sa/{name}" for name in ("cart", "later")]


async def test_the_time_that_a_token_is_good_for_is_printed_in_its_units(tmp_path: Path) -> None:
    _, (line, _) = await token(tmp_path, "--ttl=5s")
    assert line == "tokens/token is a token of the service account default/default for 5 s"


async def test_what_is_secret_is_its_owners_alone(tmp_path: Path) -> None:
    await token(tmp_path, "--dir=keys")

    modes = {
        each.name: stat.S_IMODE(each.stat().st_mode)
        for each in (tmp_path / "keys").iterdir()
        if not each.name.startswith(".")
    }
    assert modes == {"token-key.pem": 0o600, "token": 0o600, "jwks.json": 0o644}


@pytest.mark.parametrize(
    ("argument", "exit_code", "sentence"),
    [
        ("--ttl=1d", 2, "--ttl is '1d': expected a duration such as 24h or 100ms; a day is 24h"),
        ("--ttl=0s", 2, "token lifetime of 0 s, 1 s at least"),
        ("--namespace=a/b", 2, "a/b"),
        ("--service-account=a/b", 2, "service account 'a/b' is not a DNS name"),
        ("--dir=/proc/none", 1, "/proc/none"),
    ],
)
async def test_a_token_that_cannot_be_issued_is_reported_in_a_sentence(
    argument: str, exit_code: int, sentence: str, tmp_path: Path
) -> None:
    code, (line,) = await token(tmp_path, argument)

    assert code == exit_code
    assert line.startswith("mesh-discovery: ")
    assert sentence in line
