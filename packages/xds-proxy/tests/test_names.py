"""Names of control planes: several addresses, a name that moves, a resolver that hangs."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_testkit import PATIENCE_S
from mesh_testkit.certificates import Authority
from relays import RelayStarter, server_credentials
from upstream_planes import ads, exchange, patiently, planes_for, silent_server
from xds_proxy.testing import control_plane, envoy_stream
from xds_proxy.upstream._connecting import interleave
from xds_proxy.upstream._upstream_error import UpstreamError

_NAME = "control-plane.example"


class Resolver:
    """Stands in for the system's resolver, for one name."""

    def __init__(self) -> None:
        self._of_others = socket.getaddrinfo
        self.addresses: Sequence[str] = ()
        self.asked = 0
        self._answers = threading.Event()
        self._answers.set()

    def hang(self) -> None:
        self._answers.clear()

    def answer(self) -> None:
        self._answers.set()

    def __call__(self, host: str | bytes, *others: object, **named: object) -> object:
        if host not in (_NAME, _NAME.encode()):
            return self._of_others(host, *others, **named)  # type: ignore[arg-type]
        self.asked += 1
        self._answers.wait()
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (each, 0)) for each in self.addresses]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    resolver = Resolver()
    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", resolver)
        yield resolver
        resolver.answer()


@pytest.fixture
def root(tmp_path: Path, authority: Authority) -> Path:
    path = tmp_path / "root-cert.pem"
    path.write_bytes(authority.root_pem)
    return path


async def test_all_addresses_of_a_name_are_tried(
    resolver: Resolver, free_port: Callable[[], int]
) -> None:
    """Two that refuse, one that says nothing, and one that works."""
    port = free_port()
    resolver.addresses = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
    async with silent_server("127.0.0.4", port):
        async with control_plane(address=f"127.0.0.5:{port}") as plane:
            async with planes_for(f"{_NAME}:{port}") as planes, ads(planes) as call:
                await exchange(call, plane)


async def test_a_name_that_moves_is_resolved_for_each_connection(
    resolver: Resolver, free_port: Callable[[], int], authority: Authority, root: Path
) -> None:
    port = free_port()
    credentials = server_credentials(authority, _NAME)
    async with planes_for(f"{_NAME}:{port}", root=root) as planes:
        for address in ("127.0.0.2", "127.0.0.3", "127.0.0.2"):
            resolver.addresses = (address,)
            async with control_plane(address=f"{address}:{port}", credentials=credentials) as plane:
                async with ads(planes) as call:
                    await exchange(call, plane)
            await planes.wait_to_retry()
    assert resolver.asked == 3


@pytest.mark.parametrize("hangs", [False, True], ids=["fails", "hangs"])
async def test_the_last_addresses_are_used_where_the_resolver_has_none(
    *,
    resolver: Resolver,
    free_port: Callable[[], int],
    authority: Authority,
    root: Path,
    hangs: bool,
) -> None:
    port = free_port()
    credentials = server_credentials(authority, _NAME)
    resolver.addresses = ("127.0.0.2",)
    timeout_s = 2.0 if hangs else PATIENCE_S
    async with control_plane(address=f"127.0.0.2:{port}", credentials=credentials) as plane:
        async with planes_for(f"{_NAME}:{port}", root=root, connect_timeout_s=timeout_s) as planes:
            async with ads(planes) as call:
                await exchange(call, plane)
            resolver.addresses = ()
            if hangs:
                resolver.hang()
            async with patiently(planes) as call:
                await exchange(call, plane)


async def test_in_plaintext_no_old_address_is_called(
    resolver: Resolver, free_port: Callable[[], int]
) -> None:
    port = free_port()
    resolver.addresses = ("127.0.0.2",)
    async with control_plane(address=f"127.0.0.2:{port}") as plane:
        async with planes_for(f"{_NAME}:{port}") as planes:
            async with ads(planes) as call:
                await exchange(call, plane)
            resolver.addresses = ()
            with pytest.raises(UpstreamError, match=r"cannot be resolved \(Name or service"):
                async with ads(planes):
                    pass


async def test_a_resolver_that_hangs_delays_nothing_else(
    resolver: Resolver, free_port: Callable[[], int]
) -> None:
    resolver.hang()
    async with control_plane() as plane:
        addresses = (f"{_NAME}:{free_port()}", plane.address)
        async with planes_for(*addresses, connect_timeout_s=2.0) as planes:
            async with patiently(planes) as call:
                await exchange(call, plane)
            said = str(planes.statuses[0].last_error)
            assert (
                said == "its host name cannot be resolved (no answer from the resolver within 2 s)"
            )


async def test_a_relay_stops_while_its_resolver_hangs(
    resolver: Resolver, start_relay: RelayStarter, free_port: Callable[[], int]
) -> None:
    resolver.hang()
    async with start_relay(f"{_NAME}:{free_port()}", connect_timeout_s=3600) as running:
        stream = envoy_stream(running.socket_path)
        envoy = await stream.__aenter__()
        await envoy.send(b"")
        await running.until(lambda _: resolver.asked > 0, what="a lookup")
    assert await envoy.receive() is None
    await stream.__aexit__(None, None, None)


def test_a_program_ends_while_its_resolver_hangs(free_port: Callable[[], int]) -> None:
    """Neither the loop's shutdown nor the interpreter's exit waits for the lookup."""
    program = f"""
import asyncio, socket, time
from xds_proxy import UpstreamConfig
from xds_proxy.protocol._dialect import DELTA
from xds_proxy.upstream._control_planes import control_planes

def hang(*_, **__):
    time.sleep(3600)

socket.getaddrinfo = hang
config = UpstreamConfig(
    address="name.example:{free_port()}", root_certificate=None, connect_timeout_s=0.1
)

async def main():
    async with control_planes(config, max_message_bytes=1 << 20) as planes:
        async with planes.call(DELTA):
            pass

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False
    )
    assert "no answer from the resolver within 0.1 s" in done.stderr


def test_the_hosts_file_of_the_machine_is_read_again(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    """By the system's own resolver, in a mount namespace whose hosts file changes."""
    hosts, sources = tmp_path / "hosts", tmp_path / "nsswitch.conf"
    hosts.write_text(f"127.0.0.2 {_NAME}\n")
    sources.write_text("hosts: files\n")
    program = f"""
import asyncio, pathlib, sys
sys.path.insert(0, {str(Path(__file__).parent / "support")!r})
from upstream_planes import ads, exchange, patiently, planes_for
from xds_proxy.testing import control_plane

async def main():
    port = {free_port()}
    async with planes_for("{_NAME}:%s" % port) as planes:
        for address in ("127.0.0.2", "127.0.0.3"):
            pathlib.Path({str(hosts)!r}).write_text(address + " {_NAME}\\n")
            async with control_plane(address="%s:%s" % (address, port)) as plane:
                async with ads(planes) as call:
                    await exchange(call, plane)
                    print(address)

asyncio.run(main())
"""
    mounts = (
        f'mount --bind "{hosts}" /etc/hosts && mount --bind "{sources}" /etc/nsswitch.conf'
        ' && exec "$@"'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounts, "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "127.0.0.2\n127.0.0.3\n"), done.stderr


@pytest.mark.parametrize("address", ["[::1]:0", "127.0.0.1:0"])
async def test_ipv4_and_ipv6_and_a_name_with_both(address: str, resolver: Resolver) -> None:
    resolver.addresses = ("::1", "127.0.0.1")
    async with control_plane(address=address) as plane:
        port = plane.address.rpartition(":")[2]
        for named in (plane.address, f"{_NAME}:{port}"):
            async with planes_for(named) as planes, ads(planes) as call:
                await exchange(call, plane)


_ADDRESSES = st.lists(st.sampled_from(["::1", "::2", "::3", "192.0.2.1", "192.0.2.2"]), unique=True)


@given(_ADDRESSES)
def test_ipv4_and_ipv6_alternate_and_keep_their_order(addresses: list[str]) -> None:
    ordered = interleave(addresses)
    assert sorted(ordered) == sorted(addresses)
    for is_ipv6 in (True, False):
        of_kind = [each for each in addresses if (":" in each) is is_ipv6]
        assert [each for each in ordered if (":" in each) is is_ipv6] == of_kind
    if addresses:
        assert ordered[0] == addresses[0]
    both = {":" in each for each in addresses} == {True, False}
    if both:
        assert (":" in ordered[0]) is not (":" in ordered[1])


async def test_a_wait_for_a_retry_ends_with_the_caller(free_port: Callable[[], int]) -> None:
    async with planes_for(f"127.0.0.1:{free_port()}") as planes:
        for _ in range(5):
            with pytest.raises(UpstreamError):
                async with ads(planes):
                    pass
        waiting = asyncio.create_task(planes.wait_to_retry())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() or waiting.done()
