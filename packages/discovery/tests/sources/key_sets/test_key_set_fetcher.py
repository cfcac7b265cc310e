"""Key sets of issuers are fetched as long as they are wanted, and good ones stay."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from istio_config.kinds.request_authentication import MOST_PATIENCE_S, JwtRule
from mesh_address_guard import THIS_MACHINE, AddressGuard, parse_networks
from mesh_ca import FetchError, RemoteJwksConfig
from mesh_discovery.sources.key_sets._key_set_fetcher import GATHER_S, REFRESH_S, KeySetFetcher
from mesh_lifecycle.testing import ManualClock
from mesh_model import NO_KEY_SETS, KeySets, KeySource, WantedKeySet
from mesh_testkit import until
from planes import eventually

A, B = KeySource("https://a.example/keys"), KeySource("", "https://b.example")
SHOP = WantedKeySet(5.0, frozenset({"shop"}))


ANYWHERE = AddressGuard()
ALLOWING = AddressGuard(blocked=THIS_MACHINE, allowed=parse_networks("127.0.0.0/8,::1"))


def key_set(*names: str) -> bytes:
    return json.dumps(
        {"keys": [{"kty": "oct", "kid": each, "k": "AAAA"} for each in names]}
    ).encode()


def names_in(sets: KeySets, source: KeySource) -> list[str]:
    """Return the ids of the keys that proxies are given for a source; none until it is fetched."""
    rule = JwtRule(issuer=source.issuer, jwks_uri=source.uri)
    text = sets.get(rule)
    return (
        [] if text == NO_KEY_SETS.get(rule) else [each["kid"] for each in json.loads(text)["keys"]]
    )


class Issuers:
    """Answers with what the test says; others can't be reached."""

    def __init__(self) -> None:
        self.sets: dict[KeySource, bytes] = {}
        self.asked: list[KeySource] = []
        self.held: asyncio.Event | None = None
        self.now = self.most = 0

    async def __call__(self, config: RemoteJwksConfig) -> bytes:
        source = KeySource(config.url, config.issuer)
        self.asked.append(source)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if self.held is not None:
                await self.held.wait()
            if source not in self.sets:
                raise FetchError(f"{source}: connection refused")
            return self.sets[source]
        finally:
            self.now -= 1


class FollowedFetcher:
    """A fetcher that runs, and how often it said that key sets are others."""

    def __init__(self, issuers: Issuers) -> None:
        self.issuers, self.clock = issuers, ManualClock()
        self.fetcher = KeySetFetcher(fetch=issuers, clock=self.clock)
        self.times = 0

    def tell(self) -> None:
        self.times += 1

    async def pass_time(self, seconds: float = GATHER_S) -> None:
        await self.clock.advance(seconds)

    def names(self, source: KeySource) -> list[str]:
        return names_in(self.fetcher.key_sets, source)


@asynccontextmanager
async def following_fetcher(
    issuers: Issuers, *sources: KeySource
) -> AsyncIterator[FollowedFetcher]:
    found = FollowedFetcher(issuers)
    async with found.fetcher.following(found.tell):
        found.fetcher.want(dict.fromkeys(sources, SHOP))
        await found.pass_time()
        yield found


async def test_sets_are_fetched_when_they_are_wanted_and_again_after_a_while() -> None:
    issuers = Issuers()
    issuers.sets = {A: key_set("1"), B: key_set("2")}
    async with following_fetcher(issuers, A, B) as found:
        assert (found.names(A), found.names(B), found.times) == (["1"], ["2"], 1)
        issuers.sets[A] = key_set("1", "3")
        await found.pass_time(REFRESH_S + GATHER_S)
        assert (found.names(A), found.times) == (["1", "3"], 2)
        assert len(issuers.asked) == 4


async def test_set_that_is_written_in_another_order_is_the_same() -> None:
    issuers = Issuers()
    issuers.sets = {A: key_set("1", "2")}
    async with following_fetcher(issuers, A) as found:
        issuers.sets[A] = key_set("2", "1")
        await found.pass_time(REFRESH_S + GATHER_S)
        assert (len(issuers.asked), found.times) == (2, 1)


async def test_set_that_cannot_be_fetched_is_tried_again_soon_and_refuses_tokens_meanwhile() -> (
    None
):
    issuers = Issuers()
    async with following_fetcher(issuers, A, B) as found:
        assert (found.names(A), found.fetcher.missing, found.times) == ([], 2, 0)
        issuers.sets = {A: key_set("1")}
        await found.pass_time(2.0)
        assert (found.names(A), found.fetcher.missing) == (["1"], 1)


async def test_issuer_that_is_away_for_an_hour_is_found_again_within_a_minute_or_so() -> None:
    issuers = Issuers()
    async with following_fetcher(issuers, A) as found:
        await found.pass_time(3600.0)
        assert len(issuers.asked) < 120
        issuers.sets = {A: key_set("1")}
        await found.pass_time(75.0)
        assert found.names(A) == ["1"]


BAD = {
    "not JSON": b"<html>",
    "not UTF-8": b"\xff\xfe{",
    "no key": b'{"keys": []}',
    "no key that Envoy can use": b'{"keys": [{"kty": "XYZ"}]}',
    "a list": b"[]",
    "keys that are no mappings": b'{"keys": [1]}',
    "nested a thousand times": b'{"keys": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
}


@pytest.mark.parametrize("case", BAD)
async def test_last_good_set_stays_where_a_bad_one_comes(case: str) -> None:
    issuers = Issuers()
    issuers.sets = {A: key_set("1")}
    async with following_fetcher(issuers, A) as found:
        issuers.sets[A] = BAD[case]
        await found.pass_time(2 * REFRESH_S)
        assert (found.names(A), found.times) == (["1"], 1)
        issuers.sets[A] = key_set("2")
        await found.pass_time(REFRESH_S * 1.5)
        assert found.names(A) == ["2"]


async def test_keys_that_envoy_cannot_use_do_not_spoil_the_others() -> None:
    issuers = Issuers()
    issuers.sets = {
        A: b'{"keys": [{"kty": "XYZ", "kid": "x"}, {"kty": "oct", "k": "AA", "kid": "1"}]}'
    }
    async with following_fetcher(issuers, A) as found:
        assert sorted(found.names(A)) == ["1", "x"]


async def test_set_that_is_no_longer_wanted_is_forgotten_and_not_asked_for() -> None:
    issuers = Issuers()
    issuers.sets = {A: key_set("1"), B: key_set("2")}
    async with following_fetcher(issuers, A, B) as found:
        found.fetcher.want({B: SHOP})
        await found.pass_time()
        issuers.asked.clear()
        await found.pass_time(REFRESH_S)
        assert issuers.asked == [B]
        issuers.sets.clear()
        found.fetcher.want({A: SHOP, B: SHOP})
        await found.pass_time()
        assert found.fetcher.missing == 1


async def test_few_of_hundreds_are_fetched_at_once_and_one_that_hangs_delays_no_other() -> None:
    issuers, held = Issuers(), asyncio.Event()
    sources = [KeySource(f"https://{number}.example/keys") for number in range(200)]
    issuers.sets = {each: key_set("1") for each in sources}
    issuers.held = held
    async with following_fetcher(issuers, *sources) as found:
        assert (issuers.most, found.times) == (8, 0)
        held.set()
        await found.pass_time(1.0)
        assert (found.fetcher.missing, issuers.most) == (0, 8)
        assert found.times <= 2  # they came together, and were notified together


async def test_nothing_is_asked_for_where_no_set_is_wanted() -> None:
    issuers = Issuers()
    async with following_fetcher(issuers) as found:
        await found.pass_time(10 * REFRESH_S)
    assert (issuers.asked, found.times) == ([], 0)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_real_servers_that_do_wrong_are_reported_and_a_right_one_is_found_by_its_issuer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        own = request.url.origin()
        match request.path:
            case "/large":
                return web.Response(body=b" " * 20_000_000)
            case "/slow":
                response = web.StreamResponse()
                await response.prepare(request)
                for _ in range(600):
                    await response.write(b" ")
                    await asyncio.sleep(0.1)
                return response
            case "/elsewhere":
                raise web.HTTPFound(f"{own}/keys")
            case "/good/.well-known/openid-configuration":
                return web.json_response(
                    {
                        "issuer": f"{own}/good",
                        "jwks_uri": f"{own}/keys",
                    }
                )
            case "/bad/.well-known/openid-configuration":
                return web.json_response(
                    {
                        "issuer": f"{own}/other",
                        "jwks_uri": f"{own}/keys",
                    }
                )
            case "/keys":
                return web.Response(body=key_set("1"))
            case _:
                raise web.HTTPNotFound

    async with served(answer) as base:
        wrong = [KeySource(f"{base}/{each}") for each in ("large", "slow", "elsewhere", "none")]
        wrong.append(KeySource("", f"{base}/bad"))
        good = KeySource("", f"{base}/good")
        fetcher, came = KeySetFetcher(guard=ANYWHERE), asyncio.Event()
        async with fetcher.following(came.set):
            hurried = SHOP._replace(timeout_s=1.0)
            patient = SHOP._replace(timeout_s=30.0)
            fetcher.want({**dict.fromkeys(wrong, hurried), good: patient})
            await came.wait()
            assert names_in(fetcher.key_sets, good) == ["1"]

            async def reported_uris() -> int:
                return len({each.__dict__["uri"] for each in failures_logged(caplog)})

            await eventually(reported_uris, wanted=len(wrong), what="each failure being logged")
            assert fetcher.missing == len(wrong)


class Silent(asyncio.Protocol):
    """Reads a request and never answers."""

    def __init__(self, asked: set[bytes], open_ones: set[asyncio.BaseTransport]) -> None:
        self.asked, self.open_ones = asked, open_ones

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.open_ones.add(transport)

    def data_received(self, data: bytes) -> None:
        self.asked.add(data.split()[1])


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[str, set[bytes]]]:
    """Yield the address of a server that never answers, and the paths that it was asked for."""
    asked: set[bytes] = set()
    open_ones: set[asyncio.BaseTransport] = set()
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: Silent(asked, open_ones), "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
        for each in open_ones:
            each.close()


async def test_silent_servers_of_one_namespace_keep_no_key_set_from_another() -> None:
    """The good one is asked for while each slot of the other namespace is held."""

    async def keys(_request: web.Request) -> web.Response:
        return web.Response(body=key_set("1"))

    async with silent_server() as (silent, asked), served(keys) as base:
        wanted = WantedKeySet(MOST_PATIENCE_S, frozenset({"mallory"}))
        tarpits = {KeySource(f"{silent}/{number}"): wanted for number in range(200)}
        good = KeySource(f"{base}/keys")
        fetcher, came = KeySetFetcher(guard=ANYWHERE), asyncio.Event()
        async with fetcher.following(came.set):
            fetcher.want(tarpits)
            await until(lambda: len(asked) == 8, what="all slots of a namespace being held")
            fetcher.want({**tarpits, good: SHOP})
            await came.wait()
            assert names_in(fetcher.key_sets, good) == ["1"]
            assert len(asked) == 8


async def test_a_namespace_without_a_slot_is_given_one_however_many_are_taken() -> None:
    issuers = Issuers()
    issuers.held = asyncio.Event()
    wanted = {
        KeySource(f"https://{namespace}.example/{number}"): WantedKeySet(
            5.0, frozenset({namespace})
        )
        for namespace in "abcdefgh"
        for number in range(20)
    }
    async with following_fetcher(issuers) as found:
        found.fetcher.want(wanted)
        await found.pass_time()
        # The first four hold all 32; each of the other four is given one above them.
        assert issuers.most == 36
        found.fetcher.want({**wanted, A: SHOP})
        await found.pass_time()
        assert (issuers.most, issuers.asked[-1]) == (37, A)


async def test_a_set_that_several_want_takes_a_slot_of_the_one_that_holds_the_fewest() -> None:
    issuers = Issuers()
    issuers.held = asyncio.Event()
    tarpits = {KeySource(f"https://a.example/{number}"): SHOP for number in range(20)}
    async with following_fetcher(issuers) as found:
        found.fetcher.want(tarpits)
        await found.pass_time()
        shared = WantedKeySet(5.0, frozenset({"shop", "other"}))
        found.fetcher.want({**tarpits, B: shared})
        await found.pass_time()
        assert issuers.asked[-1] == B


async def test_sets_that_were_never_asked_for_come_before_those_that_are_asked_for_again() -> None:
    issuers = Issuers()
    tarpits = {KeySource(f"https://a.example/{number}"): SHOP for number in range(16)}
    async with following_fetcher(issuers, *tarpits) as found:
        issuers.held = asyncio.Event()
        await found.pass_time(60.0)  # all are asked for again; half of them wait
        found.fetcher.want({**tarpits, A: SHOP})
        await found.pass_time()
        issuers.asked.clear()
        issuers.held.set()
        await found.pass_time()
        assert issuers.asked[0] == A


async def test_sets_of_a_namespace_are_kept_within_a_bound_and_not_at_the_cost_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    issuers = Issuers()
    large = json.dumps({"keys": [{"kty": "oct", "k": "A" * 250_000}]}).encode()
    many = [KeySource(f"https://a.example/{number}") for number in range(20)]
    issuers.sets = dict.fromkeys(many, large) | {A: key_set("1"), B: key_set("2")}
    shared = SHOP._replace(namespaces=frozenset({"shop", "mallory"}))
    async with following_fetcher(issuers) as found:
        mallory = SHOP._replace(namespaces=frozenset({"mallory"}))
        found.fetcher.want(dict.fromkeys(many, mallory))
        await found.pass_time()
        assert found.fetcher.missing == 20 - 16
        found.fetcher.want({**dict.fromkeys(many, mallory), A: SHOP, B: shared})
        await found.pass_time()
        assert (found.names(A), found.names(B), found.fetcher.missing) == (["1"], ["2"], 4)
        found.fetcher.want(dict.fromkeys([A, *many[16:]], mallory))
        await found.pass_time(60.0)
        assert found.fetcher.missing == 0
    reasons = {each.__dict__["reason"] for each in failures_logged(caplog)}
    assert all("too many beside the" in each for each in reasons)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]"])
async def test_a_key_set_of_this_machine_is_not_fetched_unless_its_network_is_allowed(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    async def keys(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=key_set("1"))

    async with served(keys) as base:
        source = KeySource(f"http://{host}:{base.rpartition(':')[2]}/keys")
        fetcher = KeySetFetcher()
        async with fetcher.following(lambda: None):
            fetcher.want({source: SHOP})
            await until(lambda: bool(failures_logged(caplog)), what="the refusal being logged")
        (reason,) = {each.__dict__["reason"] for each in failures_logged(caplog)}
        assert "is at a blocked address: " in reason
        assert "--key-set-networks" in reason
        assert asked == []
        fetcher, came = KeySetFetcher(guard=ALLOWING), asyncio.Event()
        async with fetcher.following(came.set):
            fetcher.want({source: SHOP})
            await came.wait()
        assert asked == ["/keys"]


@pytest.mark.parametrize("way", ["its URL", "its issuer", "the issuer's document", "a redirect"])
async def test_a_key_set_is_not_fetched_from_a_metadata_service(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = "http://169.254.169.254/latest/meta-data"

    async def answer(request: web.Request) -> web.StreamResponse:
        if way == "a redirect":
            raise web.HTTPFound(metadata)
        issuer = str(request.url.origin())
        return web.json_response({"issuer": issuer, "jwks_uri": metadata})

    async with served(answer) as base:
        source = {
            "its URL": KeySource(metadata),
            "its issuer": KeySource("", metadata),
            "the issuer's document": KeySource("", base),
            "a redirect": KeySource(f"{base}/keys"),
        }[way]
        fetcher = KeySetFetcher(guard=ALLOWING)
        async with fetcher.following(lambda: None):
            fetcher.want({source: SHOP})
            await until(lambda: bool(failures_logged(caplog)), what="the refusal being logged")
    (reason,) = {each.__dict__["reason"] for each in failures_logged(caplog)}
    assert ("status 302" if way == "a redirect" else "is in 169.254.0.0/16") in reason


def failures_logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if "can't be fetched" in each.getMessage()]
