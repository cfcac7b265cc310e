"""A rewriter that can do better than before has its resources rewritten once more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesh_testkit import until
from xds_proxy import Relay, RelayConfig, UpstreamConfig, relaying
from xds_proxy.protocol._dialect import DELTA, DIALECTS, STATE_OF_THE_WORLD, Dialect
from xds_proxy.protocol._resources import Resource, resources_of, write_response
from xds_proxy.testing import ControlPlaneStream, EnvoyStream, control_plane, envoy_stream

TYPE = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
OTHER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
by_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=["sotw", "delta"])


def body(name: str, content: str) -> bytes:
    """Return a packed message whose first field is the resource's name."""
    value = _text(1, name) + _text(2, content)
    return _text(1, TYPE) + b"\x12" + bytes([len(value)]) + value


def _text(number: int, text: str) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text.encode()


class Improving:
    """Writes `poor` in place of `want`, and `good` once it is `ready`."""

    def __init__(self) -> None:
        self.ready = False
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.began = 0

    def concerns(self, node: bytes, type_url: str) -> bool:
        del node
        return type_url == TYPE

    async def rewrite(self, node: bytes, type_url: str, bodies: Sequence[bytes]) -> Sequence[bytes]:
        assert (node, type_url) == (b"\x0a\x01n", TYPE)
        ready = self.ready
        self.began += 1
        await self.may_go_on.wait()
        word = b"good" if ready else b"poor"
        return [each.replace(b"want", word) if b"want" in each else each for each in bodies]


class Sides:
    """The control plane's side and Envoy's of one relayed stream."""

    def __init__(
        self, dialect: Dialect, envoy: EnvoyStream, plane: ControlPlaneStream, relay: Relay
    ) -> None:
        self.dialect = dialect
        self.envoy = envoy
        self.plane = plane
        self.relay = relay

    async def push(self, nonce: str, removed: Sequence[str] = (), **contents: str) -> None:
        resources = [
            Resource(name, f"v-{nonce}" if self.dialect is DELTA else "", body(name, content))
            for name, content in contents.items()
        ]
        await self.plane.send(
            write_response(
                self.dialect,
                type_url=TYPE,
                version=nonce,
                nonce=nonce,
                resources=resources,
                removed=removed,
            )
        )

    async def got(self) -> tuple[str, str, dict[str, str]]:
        """Return nonce, version and contents of what Envoy gets next."""
        response = await self.envoy.receive() or b""
        peeked = self.dialect.read_response(response)
        contents = {
            each.name: each.body[-4:].decode() for each in resources_of(self.dialect, response)
        }
        return peeked.nonce, peeked.version, contents

    async def answer(self, nonce: str, *, error: str | None = None) -> None:
        await self.envoy.send(
            self.dialect.write_request(type_url=TYPE, version="1", nonce=nonce, error=error)
        )

    async def next_request(self) -> tuple[str, str]:
        request = self.dialect.read_request(await self.plane.receive() or b"")
        return request.type_url, request.nonce


@asynccontextmanager
async def relayed(dialect: Dialect, rewriter: Improving, directory: Path) -> AsyncIterator[Sides]:
    async with control_plane() as plane:
        config = RelayConfig(
            socket_path=directory / "XDS",
            upstream=UpstreamConfig(address=plane.address, root_certificate=None),
        )
        async with (
            relaying(config, rewriters=[rewriter]) as relay,
            envoy_stream(config.socket_path, method=dialect.method) as envoy,
        ):
            node = bytes([dialect.request_node << 3 | 2, 3]) + b"\x0a\x01n"
            await envoy.send(node + dialect.write_request(type_url=TYPE))
            upstream = await plane.accept()
            await upstream.receive()
            yield Sides(dialect, envoy, upstream, relay)


@by_dialect
async def test_envoy_gets_the_better_resource_and_the_control_plane_hears_nothing(
    dialect: Dialect, socket_dir: Path
) -> None:
    rewriter = Improving()
    async with relayed(dialect, rewriter, socket_dir) as sides:
        await sides.push("n1", a="same", b="want")
        assert await sides.got() == ("n1", "n1", {"a": "same", "b": "poor"})
        await sides.answer("n1")
        assert await sides.next_request() == (TYPE, "n1")
        rewriter.ready = True
        sides.relay.rewrite_again(TYPE, "b")
        nonce, version, contents = await sides.got()
        expected = {"b": "good"} if dialect is DELTA else {"a": "same", "b": "good"}
        assert (version, contents) == ("n1", expected)
        assert nonce != "n1"
        await sides.answer(nonce, error="not that either")
        await sides.envoy.send(dialect.write_request(type_url=OTHER))
        assert await sides.next_request() == (OTHER, "")
        # The control plane goes on as if nothing had been.
        await sides.push("n2", b="want")
        assert await sides.got() == ("n2", "n2", {"b": "good"})
        await sides.answer("n2")
        assert await sides.next_request() == (TYPE, "n2")


@by_dialect
async def test_what_was_not_changed_or_is_gone_is_not_sent_again(
    dialect: Dialect, socket_dir: Path
) -> None:
    rewriter = Improving()
    async with relayed(dialect, rewriter, socket_dir) as sides:
        await sides.push("n1", b="want")
        await sides.got()
        if dialect is DELTA:
            await sides.push("n2", removed=["b"], c="same")
        else:
            await sides.push("n2", c="same")
        await sides.got()
        rewriter.ready = True
        for type_url, name in ((TYPE, "b"), (TYPE, "c"), (TYPE, "none"), (OTHER, "b")):
            sides.relay.rewrite_again(type_url, name)
        await sides.push("n3", d="same")
        assert (await sides.got())[0] == "n3"


@by_dialect
async def test_an_older_response_never_replaces_a_newer_one(
    dialect: Dialect, socket_dir: Path
) -> None:
    rewriter = Improving()
    async with relayed(dialect, rewriter, socket_dir) as sides:
        await sides.push("n1", b="want")
        assert await sides.got() == ("n1", "n1", {"b": "poor"})
        rewriter.may_go_on.clear()
        await sides.push("n2", b="want")
        await until(lambda: rewriter.began == 2, what="the rewriting of n2")
        await sides.push("n3", x="want")
        rewriter.ready = True
        sides.relay.rewrite_again(TYPE, "b")
        rewriter.may_go_on.set()
        seen = [await sides.got() for _ in range(3)]
        # n3 may come before the repetition or after it.
        versions = [version for _, version, _ in seen]
        assert versions[0] == "n2"
        if dialect is STATE_OF_THE_WORLD:
            assert versions == sorted(versions)
            assert seen[2][2] == {"x": "good"} or versions[2] == "n3"
        else:
            assert sorted(versions) == ["n2", "n2", "n3"]
            assert {"b": "good"} in [contents for *_, contents in seen]
