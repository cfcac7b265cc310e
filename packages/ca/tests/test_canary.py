"""What holds a key must not tell it: logs at debug level, representations, errors, other files."""

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from mesh_ca import (
    Authority,
    CaError,
    RevocationList,
    RootPolicy,
    SignerFiles,
    load_or_create_authority,
    load_signer,
    replace_root,
    rotating_authority,
)
from mesh_ca.directory._reading import read_own_root
from mesh_ca.testing import signing_request

POLICY = RootPolicy(spread=timedelta(hours=1), retirement=timedelta(hours=1))
CART = "spiffe://cluster.local/ns/shop/sa/cart"


class FakeClock:
    """The clock of conftest, as the type checker sees it."""

    now: float

    def __call__(self) -> float:
        return self.now


def key_lines(directory: Path) -> set[str]:
    """The base64 lines of all private keys there, without what all keys of a kind begin with."""
    return {
        line
        for file in directory.glob("*key.pem")
        for line in file.read_text().splitlines()[2:]
        if not line.startswith("-----")
    }


async def test_no_part_of_a_key_is_logged_shown_or_left_in_another_file(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    directory = tmp_path / "ca"
    authority: Authority = load_or_create_authority(
        directory, trust_domain="cluster.local", clock=clock
    )
    revocations = RevocationList(directory, authority, clock=clock)
    lines = key_lines(directory)
    shown: list[object] = [authority, authority.signer, revocations]
    async with rotating_authority(
        directory, authority, policy=POLICY, revocations=revocations, clock=clock
    ) as rotating:
        replace_root(directory, POLICY, clock=clock)
        lines |= key_lines(directory)
        shown += [rotating, read_own_root(directory), read_own_root(directory).state]
        for _ in range(3):
            await rotating.check()
            issued = authority.sign(signing_request()[1], identities=[CART])
            revocations.revoke(issued.serial)
            shown += [issued, authority.signer]
            clock.now += 3600
        key = directory / "ca-key.pem"
        good = key.read_bytes()
        for broken in (good[:-60], good.replace(b"A", b"!"), good + good[40:]):
            key.write_bytes(broken)
            await rotating.check()
            try:
                shown.append(load_signer(directory))
            except CaError as error:
                shown.append(error)
    shown.append(SignerFiles(ca_cert=b"", ca_key=good, cert_chain=b"", root_cert=b""))
    assert len(lines) == 4  # two keys, two lines of secrets each
    texts = [str(record.__dict__) for record in caplog.records]
    texts += [f"{each!r} {each}" for each in shown]
    texts += [
        file.read_text()
        for file in directory.iterdir()
        if file.is_file() and not file.name.endswith("key.pem")
    ]
    assert not [line for line in lines for text in texts if line in text]
