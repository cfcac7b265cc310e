import logging
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mesh_ca import KeyType, StorageError, load_or_create_authority, load_signer
from mesh_ca.testing import signing_request

CART = "spiffe://cluster.local/ns/shop/sa/cart"
FILES = ("ca-cert.pem", "ca-key.pem", "cert-chain.pem", "root-cert.pem")


def load(
    directory: Path,
    *,
    root_lifetime: timedelta = timedelta(days=3650),
    root_key: KeyType = KeyType.P256,
    clock: Callable[[], float] = time.time,
) -> bytes:
    return load_or_create_authority(
        directory,
        trust_domain="cluster.local",
        root_lifetime=root_lifetime,
        root_key=root_key,
        clock=clock,
    ).root_pem


class Pki:
    """A root, intermediates below it, and the files an operator would plug in."""

    def __init__(self, *path_lengths: int | None, lifetimes: tuple[int, ...] = ()) -> None:
        now = datetime.now(UTC)
        self.keys: list[ec.EllipticCurvePrivateKey] = []
        self.certificates: list[x509.Certificate] = []
        for depth, path_length in enumerate(path_lengths):
            key = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"level {depth}")])
            issuer = self.certificates[-1].subject if depth else name
            days = lifetimes[depth] if lifetimes else 100
            certificate = (
                x509.CertificateBuilder(issuer, name, key.public_key(), depth + 1)
                .not_valid_before(now - timedelta(days=2))
                .not_valid_after(now + timedelta(days=days))
                .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), True)
                .sign(self.keys[-1] if depth else key, hashes.SHA256())
            )
            self.keys.append(key)
            self.certificates.append(certificate)

    def pem(self, *levels: int) -> bytes:
        return b"".join(
            self.certificates[level].public_bytes(serialization.Encoding.PEM) for level in levels
        )

    def key_pem(self, level: int, password: bytes | None = None) -> bytes:
        return self.keys[level].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption(),
        )

    def write(self, directory: Path, chain: bytes) -> Path:
        last = len(self.keys) - 1
        directory.mkdir(mode=0o700)
        (directory / "ca-cert.pem").write_bytes(self.pem(last))
        (directory / "ca-key.pem").write_bytes(self.key_pem(last))
        (directory / "ca-key.pem").chmod(0o600)
        (directory / "cert-chain.pem").write_bytes(chain)
        (directory / "root-cert.pem").write_bytes(self.pem(0))
        return directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_root_is_kept_with_its_key_private(tmp_path: Path) -> None:
    directory = tmp_path / "state" / "ca"
    old = os.umask(0)
    try:
        load(directory)
    finally:
        os.umask(old)
    assert mode(directory) == 0o700
    assert mode(directory / "ca-key.pem") == 0o600
    assert sorted(file.name for file in directory.iterdir()) == [
        ".lock",
        *FILES[:3],
        "own-root.json",
        FILES[3],
    ]


def test_second_start_has_the_same_root(tmp_path: Path) -> None:
    assert load(tmp_path / "ca") == load(tmp_path / "ca")


def test_new_root_has_the_lifetime_and_key_asked_for(tmp_path: Path) -> None:
    pem = load(tmp_path / "ca", root_lifetime=timedelta(days=7), root_key=KeyType.P384)
    root = x509.load_pem_x509_certificate(pem)
    key = root.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp384r1"
    assert root.not_valid_after_utc - root.not_valid_before_utc == timedelta(days=7, minutes=2)
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_processes_starting_at_once_agree_on_one_root(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from mesh_ca import load_or_create_authority; sys.stdin.read();"
        "a = load_or_create_authority(pathlib.Path(sys.argv[1]), trust_domain='a.b');"
        "sys.stdout.buffer.write(a.root_pem)"
    )
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "ca")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    for starter in starters:  # all are let go together
        assert starter.stdin is not None
        starter.stdin.close()
        starter.stdin = None
    roots = {starter.communicate()[0] for starter in starters}
    assert [starter.returncode for starter in starters] == [0] * 4
    assert len(roots) == 1


@pytest.mark.parametrize("moved", range(4))
def test_start_cut_short_while_publishing_is_finished_by_the_next(
    moved: int, tmp_path: Path
) -> None:
    directory = tmp_path / "ca"
    root = load(directory)
    staging = directory / ".new"
    staging.mkdir()
    order = ("ca-cert.pem", "cert-chain.pem", "root-cert.pem", "ca-key.pem")
    for name in order[moved:]:
        (directory / name).replace(staging / name)
    (staging / ".root-cert.pem.0123456789abcdef").write_bytes(b"half")
    assert load(directory) == root
    assert not staging.exists()


def test_start_cut_short_before_the_key_was_written_begins_anew(tmp_path: Path) -> None:
    directory = tmp_path / "ca"
    (directory / ".new").mkdir(parents=True)
    directory.chmod(0o700)
    (directory / ".new" / "ca-cert.pem").write_bytes(b"left over")
    assert b"BEGIN CERTIFICATE" in load(directory)
    assert not (directory / ".new").exists()


@pytest.mark.parametrize("missing", FILES)
def test_missing_file_is_named_and_nothing_is_created_anew(missing: str, tmp_path: Path) -> None:
    load(tmp_path / "ca")
    (tmp_path / "ca" / missing).unlink()
    with pytest.raises(StorageError, match=missing):
        load(tmp_path / "ca")
    assert not (tmp_path / "ca" / missing).exists()


@pytest.mark.parametrize("name", ["ca-cert.pem", "ca-key.pem", "root-cert.pem"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_damaged_file_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    load(tmp_path / "ca")
    (tmp_path / "ca" / name).write_bytes(content)
    with pytest.raises(StorageError, match=f"{tmp_path}/ca: {name} holds no readable PEM"):
        load(tmp_path / "ca")


def test_truncated_file_is_named(tmp_path: Path) -> None:
    load(tmp_path / "ca")
    file = tmp_path / "ca" / "ca-cert.pem"
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(StorageError, match=r"ca-cert\.pem"):
        load(tmp_path / "ca")


def test_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    load(tmp_path / "one")
    load(tmp_path / "two")
    (tmp_path / "two" / "ca-key.pem").replace(tmp_path / "one" / "ca-key.pem")
    with pytest.raises(StorageError, match=r"ca-key\.pem is not the key of ca-cert\.pem"):
        load(tmp_path / "one")


def test_root_of_another_authority_is_refused(tmp_path: Path) -> None:
    load(tmp_path / "one")
    load(tmp_path / "two")
    (tmp_path / "two" / "root-cert.pem").replace(tmp_path / "one" / "root-cert.pem")
    with pytest.raises(StorageError, match=r"ca-cert\.pem does not lead to root-cert\.pem"):
        load(tmp_path / "one")


def test_expired_root_of_our_own_is_certified_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pem = load(tmp_path / "ca", clock=lambda: 1_000_000_000.0, root_lifetime=timedelta(days=1))
    (new,) = x509.load_pem_x509_certificates(load(tmp_path / "ca", root_lifetime=timedelta(days=9)))
    assert new.public_key() == x509.load_pem_x509_certificate(pem).public_key()
    assert new.not_valid_after_utc - new.not_valid_before_utc == timedelta(days=9, minutes=2)
    assert "root has expired, certifying it anew" in caplog.messages


def test_expired_root_that_was_plugged_in_is_refused(tmp_path: Path) -> None:
    load(tmp_path / "ca", clock=lambda: 1_000_000_000.0, root_lifetime=timedelta(days=1))
    (tmp_path / "ca" / "own-root.json").unlink()
    with pytest.raises(StorageError, match="expired at 2001-09-10 01:46:40 UTC"):
        load(tmp_path / "ca")


def test_encrypted_key_is_refused(tmp_path: Path) -> None:
    pki = Pki(None)
    pki.write(tmp_path / "ca", b"")
    (tmp_path / "ca" / "ca-key.pem").write_bytes(pki.key_pem(0, password=b"secret"))
    with pytest.raises(StorageError, match=r"ca-key\.pem is encrypted"):
        load(tmp_path / "ca")


def a_file(path: Path) -> None:
    path.write_bytes(b"")


def key_is_a_directory(path: Path) -> None:
    (path / "ca-key.pem").mkdir(parents=True)
    (path / "ca-cert.pem").write_bytes(b"")


def symlink_loop(path: Path) -> None:
    path.symlink_to(path)


def writable_by_others(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def key_is_a_huge_file(path: Path) -> None:
    load(path)
    with (path / "ca-key.pem").open("wb") as file:
        file.truncate(10_000_000)


@pytest.mark.parametrize(
    ("arrange", "message"),
    [
        (a_file, "Not a directory"),
        (key_is_a_directory, "it is a directory, a regular file is needed"),
        (symlink_loop, "symbolic links"),
        (writable_by_others, r"may be written by other users \(mode 0777\)"),
        (key_is_a_huge_file, "larger than"),
    ],
)
def test_unusable_directory_is_a_clear_error(
    arrange: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    arrange(tmp_path / "ca")
    with pytest.raises(StorageError, match=message) as caught:
        load(tmp_path / "ca")
    assert str(tmp_path / "ca") in str(caught.value)


def test_directory_of_another_user_is_a_clear_error(tmp_path: Path) -> None:
    load(tmp_path / "ca")
    tmp_path.chmod(0o700)
    program = (
        "import sys, os, pathlib\n"
        "from mesh_ca import StorageError, load_or_create_authority\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "else:\n"
        "    os.chmod(sys.argv[1], 0)\n"
        "try:\n"
        "    load_or_create_authority(pathlib.Path(sys.argv[1]), trust_domain='a.b')\n"
        "except StorageError as error:\n"
        "    print(error)\n"
    )
    directory = tmp_path / "ca"
    try:
        shown = subprocess.run(
            [sys.executable, "-c", program, str(directory)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    finally:
        directory.chmod(0o700)
    assert shown == f"can't read {directory}/ca-key.pem: Permission denied\n"


@pytest.mark.parametrize(
    ("mode", "readers"),
    [(0o644, ["every user", "group"]), (0o604, ["every user"]), (0o640, ["group"])],
)
def test_key_that_others_may_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, readers: list[str]
) -> None:
    load(tmp_path / "ca")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    (tmp_path / "ca" / "ca-key.pem").chmod(mode)
    load(tmp_path / "ca")
    (warned,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert warned.getMessage().startswith("other users may read the authority's key")
    found = vars(warned)["readable_by"]
    assert [reader for reader in ("every user", "group") if reader in found] == readers


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user takes root")
def test_key_that_belongs_to_another_user_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load(tmp_path / "ca")
    os.chown(tmp_path / "ca" / "ca-key.pem", 12345, -1)
    load(tmp_path / "ca")
    (warned,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert vars(warned)["readable_by"] == "its owner, user 12345"


@pytest.mark.parametrize("chain", [(1,), (1, 0), (2, 1), (2, 1, 0), (0, 1, 2), (1, 1, 1)])
def test_plugged_in_intermediate_gives_leaf_intermediates_root(
    chain: tuple[int, ...], tmp_path: Path
) -> None:
    pki = Pki(None, None, None)
    directory = pki.write(tmp_path / "ca", pki.pem(*chain))
    before = sorted(file.name for file in directory.iterdir())
    authority = load_or_create_authority(directory, trust_domain="cluster.local")
    issued = authority.sign(signing_request()[1], identities=[CART])
    assert issued.chain_pem[1:] == (pki.pem(2), pki.pem(1), pki.pem(0))
    leaf = x509.load_pem_x509_certificate(issued.chain_pem[0])
    leaf.verify_directly_issued_by(pki.certificates[2])
    assert sorted(file.name for file in directory.iterdir()) == before
    _, server_chain = authority.issue_server_certificate(["localhost"])
    assert server_chain.endswith(pki.pem(2, 1))


def test_leaf_of_a_plugged_in_intermediate_expires_with_it(tmp_path: Path) -> None:
    pki = Pki(None, None, lifetimes=(100, 1))
    directory = pki.write(tmp_path / "ca", pki.pem(1))
    authority = load_or_create_authority(directory, trust_domain="cluster.local")
    issued = authority.sign(signing_request()[1], identities=[CART], lifetime=timedelta(days=30))
    assert issued.not_after == pki.certificates[1].not_valid_after_utc
    assert authority.root_not_after == pki.certificates[0].not_valid_after_utc


@pytest.mark.parametrize(
    ("pki", "chain"),
    [
        (Pki(None, None, None), ()),  # the middle is missing
        (Pki(0, None, None), (1,)),  # the root allows no CA below another
        (Pki(None, 0, None), (0, 1)),
    ],
)
def test_intermediate_without_a_way_to_the_root_is_refused(
    pki: Pki, chain: tuple[int, ...], tmp_path: Path
) -> None:
    directory = pki.write(tmp_path / "ca", pki.pem(*chain))
    with pytest.raises(StorageError, match=r"does not lead to root-cert\.pem"):
        load_signer(directory)


def test_certificate_that_is_no_ca_is_refused(tmp_path: Path) -> None:
    load(tmp_path / "ca")
    authority = load_or_create_authority(tmp_path / "ca", trust_domain="cluster.local")
    key, chain = authority.issue_server_certificate(["localhost"])
    (tmp_path / "ca" / "ca-cert.pem").write_bytes(chain)
    (tmp_path / "ca" / "ca-key.pem").write_bytes(key)
    with pytest.raises(StorageError, match="each a CA"):
        load(tmp_path / "ca")


def test_bundle_of_several_roots_is_handed_out_whole(tmp_path: Path) -> None:
    first, second = load(tmp_path / "one"), load(tmp_path / "two")
    (tmp_path / "one" / "root-cert.pem").write_bytes(second + first + second)
    authority = load_or_create_authority(tmp_path / "one", trust_domain="cluster.local")
    issued = authority.sign(signing_request()[1], identities=[CART])
    assert authority.root_pem == second + first
    assert issued.chain_pem[-1] == second + first
    assert len(issued.chain_pem) == 2
