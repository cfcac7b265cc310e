import asyncio
import json
import logging
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

import mesh_filewatch
from mesh_ca import JwksSource, StorageError
from mesh_ca.callers._jwks import parse_jwks

P256 = ec.generate_private_key(ec.SECP256R1()).public_key()
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()


def entry(kid: str, **parameters: object) -> dict[str, object]:
    return {**ECAlgorithm.to_jwk(P256, as_dict=True), "kid": kid, **parameters}


def rsa_entry(kid: str, **parameters: object) -> dict[str, object]:
    return {**RSAAlgorithm.to_jwk(RSA, as_dict=True), "kid": kid, **parameters}


def put(file: Path, *entries: object) -> None:
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps({"keys": entries}))
    temporary.replace(file)


class Monotonic:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_keys_are_found_by_id(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    put(file, entry("a"), rsa_entry("b"))
    source = JwksSource(file)
    assert [key.algorithm for key in await source.find("a")] == ["ES256"]
    assert [key.algorithm for key in await source.find("b")] == ["RS256"]
    assert len(await source.find(None)) == 2
    assert await source.find("c") == ()


async def test_first_callers_that_come_at_once_all_find_the_keys(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    put(file, entry("a"))
    source = JwksSource(file)
    found = await asyncio.gather(*(source.find("a") for _ in range(20)))
    assert [len(keys) for keys in found] == [1] * 20


async def test_replaced_file_is_read_again_and_removed_keys_are_gone(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    put(file, entry("a"))
    source = JwksSource(file)
    assert await source.find("a")
    put(file, entry("b"))
    assert await source.find("b")
    assert await source.find("a") == ()


async def test_a_change_that_leaves_size_and_time_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    put(file, entry("a"))
    source = JwksSource(file)
    assert await source.find("b") == ()
    before = file.stat()
    file.write_bytes(file.read_bytes().replace(b'"kid": "a"', b'"kid": "b"'))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert await source.find("b")


async def test_a_fifo_in_the_place_of_a_key_set_leaves_the_last_good_keys(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    put(file, entry("a"))
    source = JwksSource(file)
    assert await source.find("a")
    file.unlink()
    os.mkfifo(file)
    assert await source.find("a")
    with pytest.raises(StorageError, match="it is a FIFO, a regular file is needed"):
        await JwksSource(file).find("a")


async def test_projected_volume_swap_is_seen(tmp_path: Path) -> None:
    for generation in ("one", "two"):
        (tmp_path / generation).mkdir()
        put(tmp_path / generation / "jwks.json", entry(generation))
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "jwks.json").symlink_to("..data/jwks.json")
    source = JwksSource(tmp_path / "jwks.json")
    assert await source.find("one")
    (tmp_path / "..data_tmp").symlink_to("two")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert await source.find("two")


async def test_damaged_file_leaves_the_last_good_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "jwks.json"
    put(file, entry("a"))
    monotonic = Monotonic()
    source = JwksSource(file, monotonic=monotonic)
    assert await source.find("a")
    file.write_text("{")
    for monotonic.now in (0.3, 0.6):
        assert await source.find("a")
    file.unlink()
    monotonic.now = 0.9
    assert await source.find("a")
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.message for record in warnings] == [
        "key set not usable, the last good keys stay"
    ] * 2
    put(file, entry("b"))
    assert await source.find("b")


async def test_file_that_appears_later_is_read_then(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    source = JwksSource(file)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"can't read .*jwks\.json: No such file"):
            await source.find("a")
    put(file, entry("a"))
    assert await source.find("a")


@pytest.mark.parametrize(
    "unusable",
    [
        "text",
        {"kty": "oct", "k": "c2VjcmV0", "kid": "x"},
        {"kty": "RSA", "kid": "x"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "x"},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA", "kid": "x"},
        ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP384R1()).public_key(), as_dict=True),
        ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True),
        entry("x", use="enc"),
        entry("x", alg="ES384"),
        entry("x") | {"kid": 1},
        rsa_entry("x", alg="PS256"),
    ],
)
def test_unusable_keys_are_left_out(unusable: object) -> None:
    keys = parse_jwks(json.dumps({"keys": [unusable, entry("good")]}).encode())
    assert [key.kid for key in keys] == ["good"]
    with pytest.raises(StorageError, match="no key"):
        parse_jwks(json.dumps({"keys": [unusable]}).encode())


def test_short_rsa_keys_are_left_out() -> None:
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()  # noqa: S505
    document = {"keys": [RSAAlgorithm.to_jwk(short, as_dict=True)]}
    with pytest.raises(StorageError, match="no key"):
        parse_jwks(json.dumps(document).encode())


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b'{"keys": {}}', b"\xff", b"[" * 5000, b'{"keys":[]}']
)
def test_other_documents_are_no_key_set(text: bytes) -> None:
    with pytest.raises(StorageError):
        parse_jwks(text)


def test_endless_key_sets_are_refused() -> None:
    with pytest.raises(StorageError, match="65 keys"):
        parse_jwks(json.dumps({"keys": [entry("a")] * 65}).encode())


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(["kty", "n", "e", "x", "y", "crv", "kid", "alg", "use"]),
        st.none() | st.integers() | st.sampled_from(["RSA", "EC", "P-256", "AQAB"]) | st.text(),
    )
)
def test_any_entry_is_used_or_left_out(parameters: dict[str, object]) -> None:
    keys = parse_jwks(json.dumps({"keys": [parameters, entry("good")]}).encode())
    assert keys[-1].kid == "good"


async def test_an_unknown_key_id_has_the_file_read_again_once_a_second(
    tmp_path: Path,
) -> None:
    """Where the file's stamp does not tell that it is another."""
    file = tmp_path / "jwks.json"
    put(file, entry("a"))
    monotonic = Monotonic()
    source = JwksSource(file, monotonic=monotonic)
    await source.find("a")
    source._seen = mesh_filewatch.file_stat(_with(file, entry("b")))  # as if it were the same still
    assert await source.find("b") == ()
    monotonic.now = 0.9
    assert await source.find("b") == ()
    monotonic.now = 1.0
    assert await source.find("b")
    source._seen = mesh_filewatch.file_stat(_with(file, entry("c")))
    monotonic.now = 1.9
    assert await source.find("c") == ()
    monotonic.now = 2.0
    assert await source.find("c")


async def test_the_file_is_looked_at_no_more_often_than_needed(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    put(file, entry("a"), entry("b"))
    monotonic = Monotonic()
    source = JwksSource(file, monotonic=monotonic)
    assert await source.find("a")
    put(file, entry("b"))
    monotonic.now = 0.1
    assert await source.find("a")
    monotonic.now = 0.2
    assert await source.find("a") == ()


def _with(file: Path, *entries: object) -> Path:
    put(file, *entries)
    return file
