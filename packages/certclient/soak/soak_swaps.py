"""A mounted volume whose `..data` is swapped many times, as fast as no Kubernetes would.

    python packages/certclient/soak/soak_swaps.py [--swaps 1000] [--rate 20]

Subscribers check each pair they see; after the last swap its pair must be served within a second.
Prints what happened and exits 1 if a pair was mixed or the last state was late.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

from certclient import Certificate, FilesConfig, SpiffeId, follow_files
from certclient.testing import FakeAuthority, issued

NAMES = ("cert-chain.pem", "key.pem", "root-cert.pem")


def mount(volume: Path, certificate: Certificate) -> None:
    """Publish as Kubernetes does: a new directory, and `..data` renamed onto it."""
    generation = Path(tempfile.mkdtemp(prefix="..", dir=volume))
    contents = (certificate.chain_pem, certificate.private_key_pem, certificate.trust_bundle_pem)
    for name, content in zip(NAMES, contents, strict=True):
        (generation / name).write_bytes(content)
    current = volume / "..data"
    before = current.resolve() if current.is_symlink() else None
    (volume / "..data_tmp").symlink_to(generation.name)
    (volume / "..data_tmp").replace(current)
    for name in NAMES:
        if not (volume / name).is_symlink():
            (volume / name).symlink_to(f"..data/{name}")
    if before is not None:
        shutil.rmtree(before)


async def soak(volume: Path, *, swaps: int, rate: float) -> bool:
    """Swap and watch; say whether all was well."""
    authority = FakeAuthority(intermediates=1)
    name = SpiffeId.for_service_account(
        trust_domain="cluster.local", namespace="shop", service_account="cart"
    )
    states = [await issued(authority, name) for _ in range(50)]
    keys = {state.chain_pem: state.private_key_pem for state in states}
    seen = mixed = 0
    mount(volume, states[-1])
    async with follow_files(FilesConfig.in_directory(volume)) as certificates:

        async def check() -> None:
            nonlocal seen, mixed
            async for certificate in certificates.changes():
                seen += 1
                mixed += certificate is None or (
                    keys[certificate.chain_pem] != certificate.private_key_pem
                )

        checking = asyncio.create_task(check(), name="subscriber")
        started = time.monotonic()
        for number in range(swaps):
            await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
            await asyncio.to_thread(mount, volume, states[number % len(states)])
        swapped = time.monotonic()
        last = states[(swaps - 1) % len(states)]
        while certificates.latest != last and time.monotonic() < swapped + 10:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        late_s = time.monotonic() - swapped
        checking.cancel()
        await asyncio.wait([checking])
    sys.stdout.write(
        f"{swaps} swaps in {swapped - started:.1f} s, {seen} certificates seen, {mixed} mixed, "
        f"the last served {late_s * 1000:.0f} ms after its swap\n"
    )
    return mixed == 0 and late_s < 1.0


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--swaps", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20, help="swaps a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        well = asyncio.run(soak(Path(directory), swaps=options.swaps, rate=options.rate))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
