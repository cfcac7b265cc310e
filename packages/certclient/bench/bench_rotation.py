"""What a renewal costs beyond the authority's own time: python bench/bench_rotation.py [ROUNDS]."""

import asyncio
import statistics
import sys
import time
from datetime import timedelta

from certclient import Certificates, KeyType, RotationConfig, SpiffeId, keep_fresh
from certclient.testing import FakeAuthority

SPIFFE_ID = SpiffeId.for_service_account(
    trust_domain="cluster.local", namespace="bench", service_account="bench"
)


class TimedAuthority:
    """Signs, and remembers when it was asked and how long it took itself."""

    def __init__(self) -> None:
        self.authority = FakeAuthority()
        self.asked_at = 0.0
        self.own_s = 0.0
        self.requests = 0

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        self.requests += 1
        self.asked_at = time.perf_counter()
        chain = await self.authority.sign(csr_pem, lifetime=lifetime)
        self.own_s = time.perf_counter() - self.asked_at
        return chain


async def ten_asks(certificates: Certificates, authority: TimedAuthority, rounds: int) -> None:
    own, whole, requests = [], [], authority.requests
    for _ in range(rounds):
        started = time.perf_counter()
        renewed = await asyncio.gather(*(certificates.renew() for _ in range(10)))
        whole.append(time.perf_counter() - started)
        own.append(authority.own_s)
        assert len({certificate.serial for certificate in renewed}) == 1
    sent = (authority.requests - requests) / rounds
    beyond = [total - part for total, part in zip(whole, own, strict=True)]
    show(f"10 concurrent asks -> {sent:.2f} CSR, beyond the authority's time", beyond)


async def csr_to_published(
    certificates: Certificates, authority: TimedAuthority, rounds: int
) -> None:
    beyond = []
    changes = certificates.changes()
    await anext(changes)
    for _ in range(rounds):
        certificates.request_renewal()
        await anext(changes)
        beyond.append(time.perf_counter() - authority.asked_at - authority.own_s)
    show("CSR -> subscriber has it, beyond the authority's time", beyond)


def show(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p99 = ordered[int(len(ordered) * 0.99)]
    print(f"{what}: median {statistics.median(ordered) * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms")


async def main(rounds: int) -> None:
    for key_type in (KeyType.P256, KeyType.P384, KeyType.RSA_2048):
        authority = TimedAuthority()
        config = RotationConfig(spiffe_id=SPIFFE_ID, key_type=key_type)
        async with keep_fresh(config, authority) as certificates:
            await certificates.wait_for_first()
            count = rounds if key_type is not KeyType.RSA_2048 else max(1, rounds // 20)
            print(f"{key_type}, {count} rounds")
            await ten_asks(certificates, authority, count)
            await csr_to_published(certificates, authority, count)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
