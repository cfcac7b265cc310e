"""The addresses of a host, with a resolver that answers, fails or hangs."""

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
