"""Names of the mesh: the addresses that agents answer them with, and how they come to agents."""

import asyncio
import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_discovery import ConfigLoader
from mesh_discovery.model._auto_addresses import allocate, auto_addresses
from mesh_discovery.model._facts import Facts
from mesh_discovery.model._model import MeshModel, build_model
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push.context._context import PushContext
from mesh_protos import type_urls
from mesh_protos.nds_pb2 import NameTable
from planes import Documents
from proxies import proxy_of
from xds_server import Node
from xds_server.testing import ADS_DELTA, ADS_SOTW, DeltaClient, SotwClient, over_grpc

Build = Callable[..., MeshModel]
WEB = "web.default.svc.cluster.local"


def entry(name: str, spec: str, *, namespace: str = "default", labels: str = "") -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}\n"
        f"spec: {{location: MESH_INTERNAL, {spec}}}\n"
    )


HTTP = "ports: [{number: 80, name: http, protocol: HTTP}]"
TCP = "ports: [{number: 9000, name: tcp, protocol: TCP}]"
STATIC = "resolution: STATIC, endpoints: [{address: 10.0.0.1}, {address: 10.0.0.2}]"
DOCUMENTS = (
    entry("web", f"hosts: [{WEB}], {HTTP}, {STATIC}"),
    entry("other", f"hosts: [web.other.svc.cluster.local], {HTTP}, {STATIC}", namespace="other"),
    entry("fixed", f"hosts: [fixed.test], addresses: [10.9.9.9, 10.8.0.0/16], {TCP}, {STATIC}"),
    entry("mixed", "hosts: [mixed.test], addresses: [10.9.9.8], resolution: STATIC, "
          "ports: [{number: 80, name: http, protocol: HTTP}, "
          "{number: 9001, name: tcp, protocol: TCP}]"),
    entry("wild", f"hosts: ['*.wild.test'], {HTTP}, resolution: STATIC"),
    entry("none", f"hosts: [none.test], {HTTP}, resolution: NONE"),
    entry("headless", f"hosts: [headless.default.svc.cluster.local], {HTTP}, {STATIC}",
          labels="networking.istio.io/enable-autoallocate-ip: 'false'"),
    entry("hidden", f"hosts: [hidden.test], {HTTP}, {STATIC}, exportTo: [.]", namespace="other"),
)  # fmt: skip


def proxy(*, kind: str = "sidecar", address: str = "10.1.1.1", **metadata: Any) -> Proxy:
    return proxy_of(
        Node(id=f"{kind}~{address}~client.default~default.svc.cluster.local", metadata=metadata)
    )


def table(context: PushContext, of: Proxy) -> dict[str, tuple[str, ...]]:
    return {host: tuple(info.ips) for host, info in message(context, of).table.items()}


def message(context: PushContext, of: Proxy) -> NameTable:
    (resource,) = context.names(of).resources
    return NameTable.FromString(resource.body)


def test_an_agent_that_captures_dns_is_told_what_istio_tells(model_of: Build) -> None:
    context = PushContext(model_of(*DOCUMENTS))

    found = table(context, proxy(DNS_CAPTURE="true"))

    web, other = found.pop(WEB), found.pop("web.other.svc.cluster.local")
    assert found == {
        "fixed.test": ("10.9.9.9",),
        "mixed.test": ("10.9.9.8",),
        "headless.default.svc.cluster.local": ("10.0.0.1", "10.0.0.2"),
    }
    assert web != other
    assert all(len(each) == 1 and each[0].startswith("240.240.") for each in (web, other))


def test_hosts_of_the_mesh_have_short_names_and_all_others_have_none(model_of: Build) -> None:
    found = message(PushContext(model_of(*DOCUMENTS)), proxy(DNS_CAPTURE="true")).table

    web, fixed = found[WEB], found["fixed.test"]
    assert (web.registry, web.shortname, web.namespace) == ("Kubernetes", "web", "default")
    assert (fixed.registry, fixed.shortname, fixed.namespace) == ("External", "", "")


@pytest.mark.parametrize(
    ("address", "more", "begins"),
    [
        ("10.1.1.1", "", ["240.240."]),
        ("fd00::1", "", ["2001:2::"]),
        ("10.1.1.1", "10.1.1.1,fd00::1", ["240.240.", "2001:2::"]),
    ],
)
def test_allocated_addresses_are_of_the_ip_versions_that_a_workload_has(
    model_of: Build, address: str, more: str, begins: list[str]
) -> None:
    context = PushContext(model_of(*DOCUMENTS))
    of = proxy(address=address, DNS_CAPTURE="true", **({"INSTANCE_IPS": more} if more else {}))

    found = table(context, of)[WEB]

    assert [ip[: len(start)] for ip, start in zip(found, begins, strict=True)] == begins


@pytest.mark.parametrize("metadata", [{}, {"DNS_CAPTURE": "true", "DNS_AUTO_ALLOCATE": "false"}])
def test_without_auto_allocation_a_mesh_host_is_its_endpoints(
    model_of: Build, metadata: dict[str, str]
) -> None:
    assert table(PushContext(model_of(*DOCUMENTS)), proxy(**metadata))[WEB] == (
        "10.0.0.1",
        "10.0.0.2",
    )


def test_a_proxy_that_says_where_it_listens_has_each_name_at_its_own_listener(
    model_of: Build,
) -> None:
    rival = entry("rival", f"hosts: [rival.test], {TCP}, {STATIC}")
    late = entry("zzz", f"hosts: [late.test], {TCP}, {STATIC}")
    context = PushContext(model_of(*DOCUMENTS, rival, late))
    of = proxy(DNS_CAPTURE="true", OUTBOUND_BIND_ADDRESS="127.9.1.3")

    assert table(context, of) == {
        WEB: ("127.9.1.3",),
        "web.other.svc.cluster.local": ("127.9.1.3",),
        "headless.default.svc.cluster.local": ("127.9.1.3",),
        "*.wild.test": ("127.9.1.3",),
        "fixed.test": ("10.9.9.9",),
        "mixed.test": ("10.9.9.8",),
        "rival.test": ("127.9.1.3",),  # whose port late.test would have to have, so it has no name
    }


def test_every_address_of_a_name_is_listened_on(model_of: Build) -> None:
    context = PushContext(model_of(*DOCUMENTS))
    for of in (
        proxy(DNS_CAPTURE="true"),
        proxy(DNS_CAPTURE="true", OUTBOUND_BIND_ADDRESS="127.9.1.3"),
    ):
        places = {(each.bind, each.port) for each in context.outbound(of).listeners}
        ports = {WEB: [80], "fixed.test": [9000], "mixed.test": [80, 9001]}
        for host, numbers in ports.items():
            for ip in table(context, of)[host]:
                assert places >= {(ip, number) for number in numbers}, host


def test_gateways_are_told_names_only_if_their_agent_answers_dns(model_of: Build) -> None:
    context = PushContext(model_of(*DOCUMENTS))

    assert not context.names(proxy(kind="router")).resources
    assert WEB in table(context, proxy(kind="router", ENABLE_DNS_SERVER="true"))


def test_proxies_of_one_namespace_share_the_very_same_table(model_of: Build) -> None:
    context = PushContext(model_of(*DOCUMENTS))
    one, two = (proxy(address=each, DNS_CAPTURE="true") for each in ("10.1.1.1", "10.1.1.2"))

    assert context.names(one) is context.names(two)


def test_a_table_is_made_again_only_when_what_shapes_it_changes(model_of: Build) -> None:
    before = PushContext(model_of(*DOCUMENTS))
    moved = [each.replace("10.0.0.2", "10.0.0.3") for each in DOCUMENTS[:2]] + [*DOCUMENTS[2:]]
    captured, plain = proxy(DNS_CAPTURE="true"), proxy()
    old = before.names(captured), before.names(plain)

    after = PushContext(model_of(*moved), before=before)

    assert after.names(captured) is old[0]
    assert after.names(plain) is not old[1]
    assert table(after, plain)[WEB] == ("10.0.0.1", "10.0.0.3")


keys = st.tuples(st.sampled_from("abc"), st.text("xyz", min_size=1, max_size=3))


@given(st.lists(st.lists(keys, unique=True), min_size=1, max_size=6))
def test_an_edit_to_one_service_never_moves_the_address_of_another(
    edits: list[list[tuple[str, str]]],
) -> None:
    held: dict[tuple[str, str], int] = {}
    for wanted in edits:
        found = dict(allocate(wanted, before=held))
        assert set(found) == set(wanted)
        assert len(set(found.values())) == len(found)
        assert all(found[key] == held[key] for key in found.keys() & held.keys())
        held = found


def test_allocation_follows_from_names_alone_and_survives_a_restart() -> None:
    wanted = [("default", f"s{number}.test") for number in range(2000)]

    found = allocate(wanted)

    assert found == allocate(wanted)
    alone = [next(iter(allocate([key]).values())) for key in wanted]
    same = sum(found[key] == place for key, place in zip(wanted, alone, strict=True))
    assert same > len(wanted) * 0.97  # only those whose first choice an older one has differ


def test_an_address_that_a_user_gave_is_always_theirs() -> None:
    key = ("default", "a.test")
    (place,) = allocate([key]).values()

    for given_address in auto_addresses(place):
        assert allocate([key], given=[given_address], before={key: place})[key] != place


def test_no_allocated_address_ends_in_0_or_255_and_all_of_them_can_be_had() -> None:
    wanted = [("n", str(number)) for number in range(65_030)]

    found = allocate(wanted)

    assert len(set(found.values())) == len(found) == 65_024
    for place in (0, 253, 254, 65_023):
        first, second = auto_addresses(place)
        assert first.rpartition(".")[2] not in ("0", "255")
        assert second.startswith("2001:2::f0f0:")


def test_addresses_stay_when_configuration_is_read_again(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    directory.mkdir()
    (directory / "one.yaml").write_text(DOCUMENTS[0])
    loader = ConfigLoader(directory)
    first = build_model(Facts(snapshot=loader.load().snapshot))
    (directory / "another.yaml").write_text(DOCUMENTS[1])
    second = build_model(Facts(snapshot=loader.load().snapshot), before=first)

    key = ("default", WEB)
    assert second.by_key[key].auto_addresses == first.by_key[key].auto_addresses != ()


UNSERVED = "type.googleapis.com/istio.workload.Workload"
METADATA = {"DNS_CAPTURE": "true", "DNS_AUTO_ALLOCATE": "true", "NAMESPACE": "default"}


@pytest.mark.parametrize("delta", [False, True])
async def test_istios_agent_with_dns_capture_gets_its_first_table_and_each_change(
    config_dir: Path, start_plane: Any, eventually: Any, *, delta: bool
) -> None:
    """It asks for names without naming any, after listeners, and is ready with the first table."""
    (config_dir / "web.yaml").write_text(DOCUMENTS[0])
    plane = await start_plane(config_dir)
    async with (
        over_grpc(plane.grpc, path=ADS_DELTA if delta else ADS_SOTW) as wire,
    ):
        kind = DeltaClient if delta else SotwClient
        client = kind(
            wire,
            node_id="sidecar~10.1.1.1~client.default~default.svc.cluster.local",
            metadata=METADATA,
        )
        for url in (type_urls.CLUSTER, type_urls.LISTENER, type_urls.NAME_TABLE):
            await client.subscribe(url)
        await client.subscribe(UNSERVED)
        first = await _next_table(client)
        assert set(first) == {WEB}

        # A policy has no part in names: what comes next is the table with the new service.
        (config_dir / "policy.yaml").write_text(
            "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
            "metadata: {name: default, namespace: istio-system}\nspec: {mtls: {mode: STRICT}}\n"
        )

        async def served() -> bool:
            objects = (await plane.get("/debug/configz"))["objects"]
            return any(each["kind"] == "PeerAuthentication" for each in objects)

        await eventually(served, what="the policy")
        (config_dir / "fixed.yaml").write_text(DOCUMENTS[2])
        second = await _next_table(client)
        assert set(second) == {WEB, "fixed.test"}
        assert second[WEB] == first[WEB]

    shown = await plane.get("/metrics")
    assert f'xds_server_unserved_requests{{type="{UNSERVED}"}} 1.0' in shown
    assert plane.process.text.count("type not served") == 1


async def _next_table(client: Any) -> dict[str, tuple[str, ...]]:
    while True:
        async with asyncio.timeout(60):
            reply = await client.next()
        if reply.type_url == type_urls.NAME_TABLE:
            (body,) = reply.resources.values()
            names = NameTable.FromString(body).table
            return {host: tuple(info.ips) for host, info in names.items()}


@pytest.fixture
def allocated_addresses_are_local() -> Iterator[None]:
    """Be in a network namespace where connections to allocated addresses go to this machine."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as before:
        if libc.unshare(_NEW_NETWORK) != 0:
            pytest.skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            for command in (
                "ip link set lo up",
                "ip route add local 240.240.0.0/16 dev lo",
            ):
                subprocess.run(command.split(), check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), _NEW_NETWORK) == 0


_NEW_NETWORK = 0x40000000


@pytest.mark.usefixtures("allocated_addresses_are_local")
async def test_envoy_carries_what_connects_to_allocated_addresses(
    config_dir: Path,
    start_plane: Any,
    start_envoy: Any,
    *,
    serve_app: Any,
    yaml: Documents,
    eventually: Any,
) -> None:
    """With one route, and no interception; two TCP services have the same port."""
    for name, protocol in (("web", "http"), ("one", "tcp"), ("two", "tcp")):
        port = await serve_app(name, "127.94.1.2")
        (config_dir / f"{name}.yaml").write_text(
            entry(
                name,
                f"hosts: [{name}.test], "
                f"ports: [{{number: 80, name: {protocol}, protocol: {protocol}, "
                f"targetPort: {port}}}], resolution: STATIC, endpoints: [{{address: 127.94.1.2}}]",
            ).replace("number: 80, name: tcp", "number: 9000, name: tcp")
        )
    (config_dir / "policy.yaml").write_text(yaml.peer_authentication("DISABLE"))
    plane = await start_plane(config_dir)
    envoy = await start_envoy(
        "client", "127.94.2", plane.grpc, OUTBOUND_BIND_ADDRESS="", DNS_CAPTURE="true"
    )
    names = (await plane.get(f"/debug/ndsz?proxyID={envoy.node_id}"))["table"]

    async def answered() -> dict[str, str]:
        found = {}
        for name, port in (("web", 80), ("one", 9000), ("two", 9000)):
            (address,) = names[f"{name}.test"]["ips"]
            headers = {"Host": f"{name}.test"}
            url = f"http://{address}:{port}/"
            async with aiohttp.request("GET", url, headers=headers) as response:
                found[name] = (await response.json())["app"]
        return found

    await eventually(
        answered, wanted={each: each for each in ("web", "one", "two")}, what="an answer of each"
    )
    assert await envoy.stat("listener_manager.lds.update_rejected") == 0
