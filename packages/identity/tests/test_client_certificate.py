"""A client certificate is read only if it can be shown."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_identity import NoClientCertificate, fetch_client_certificate
from mesh_testkit.certificates import Authority


async def _reason(directory: Path) -> str:
    with pytest.raises(NoClientCertificate) as caught:
        await fetch_client_certificate(directory / "chain.pem", directory / "key.pem")
    return str(caught.value)


async def test_a_certificate_that_belongs_to_its_key(tmp_path: Path) -> None:
    issued = Authority().issue("workload.example")
    (tmp_path / "chain.pem").write_bytes(issued.chain_pem)
    (tmp_path / "key.pem").write_bytes(issued.key_pem)
    found = await fetch_client_certificate(tmp_path / "chain.pem", tmp_path / "key.pem")
    assert (found.chain_pem, found.key_pem) == (issued.chain_pem, issued.key_pem)
    assert "PRIVATE" not in repr(found)


async def test_files_that_are_missing_or_none(tmp_path: Path) -> None:
    assert await _reason(tmp_path) == "does not exist"
    (tmp_path / "chain.pem").write_bytes(Authority().issue("workload.example").chain_pem)
    assert await _reason(tmp_path) == f"has no key at {tmp_path / 'key.pem'}"
    (tmp_path / "key.pem").mkdir()
    assert "it is a directory" in await _reason(tmp_path)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: (b"garbage", b"garbage"), "or its key is not in PEM"),
        (
            lambda authority: (authority.issue("a").chain_pem, authority.issue("a").key_pem),
            "does not belong to its key",
        ),
        (
            lambda authority: (
                (expired := authority.issue("a", expired=True)).chain_pem,
                expired.key_pem,
            ),
            "has expired",
        ),
    ],
    ids=["garbage", "of two certificates", "expired"],
)
async def test_a_certificate_that_a_server_would_refuse(
    tmp_path: Path, make: Callable[[Authority], tuple[bytes, bytes]], reason: str
) -> None:
    chain, key = make(Authority())
    (tmp_path / "chain.pem").write_bytes(chain)
    (tmp_path / "key.pem").write_bytes(key)
    assert await _reason(tmp_path) == reason
