"""The addresses of a host, with a resolver that answers, fails or hangs."""

import asyncio
import socket
import threading

import pytest

from mesh_identity import HostNotResolved, fetch_addresses


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "fe80::1%lo"])
async def test_an_address_is_not_resolved(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)
    assert await fetch_addresses(address) == (address,)


async def test_each_address_once_in_the_resolvers_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(0, 0, 0, "", (each, 0)) for each in ("192.0.2.2", "::1", "192.0.2.2", "192.0.2.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert await fetch_addresses("control-plane.example") == ("192.0.2.2", "::1", "192.0.2.1")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "", "a" * 300])
async def test_a_name_without_an_address(host: str) -> None:
    with pytest.raises(HostNotResolved, match="its host name cannot be resolved"):
        await fetch_addresses(host, timeout_s=60)


async def test_a_resolver_that_never_answers_is_asked_once_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []
    answer = threading.Event()

    def hang(host: bytes, *_: object, **__: object) -> list[object]:
        asked.append(host)
        answer.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        for _ in range(3):
            with pytest.raises(
                HostNotResolved, match=r"no answer from the resolver within 0\.05 s"
            ):
                await fetch_addresses("hanging.example", timeout_s=0.05)
        assert asked == [b"hanging.example"]
    finally:
        answer.set()


async def test_names_that_one_asks_for_and_that_hang_delay_no_name_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = threading.Event()

    def resolve(host: bytes, *_: object, **__: object) -> list[object]:
        if host.endswith(b".mallory.example"):
            answer.wait()
        return [(0, 0, 0, "", ("192.0.2.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    hanging = [
        asyncio.create_task(
            fetch_addresses(f"{number}.mallory.example", timeout_s=60, for_whom="mallory")
        )
        for number in range(20)
    ]
    try:
        await asyncio.sleep(0)  # all of them have been handed over
        for asker in ("shop", ""):
            found = await fetch_addresses("good.example", timeout_s=60, for_whom=asker)
            assert found == ("192.0.2.1",)
        assert not any(each.done() for each in hanging)
    finally:
        answer.set()
    await asyncio.gather(*hanging)
