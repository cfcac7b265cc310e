"""Debug pages over xDS: who may ask for what, and in which form it is answered."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.admin.v3 import config_dump_shared_pb2
from envoy.service.discovery.v3 import discovery_pb2
from envoy.service.status.v3 import csds_pb2

from documents import entry
from mesh_ca import load_or_create_authority
from mesh_ca.testing import signing_request
from mesh_protos import type_urls
from planes import Plane
from xds_server.testing import GrpcWire, SotwClient, StreamEnded, over_grpc

Start = Callable[..., Awaitable[Plane]]
OPTIONS = [("grpc.ssl_target_name_override", "localhost")]
SERVICE = (
    "hosts: [{0}.test], resolution: STATIC, location: MESH_INTERNAL, ports: [{{number: 80, "
    "name: http, protocol: HTTP}}], endpoints: [{{address: 10.0.0.1}}]"
)


def shown(plane: Plane, namespace: str) -> grpc.ChannelCredentials:
    authority = load_or_create_authority(plane.ca_dir, trust_domain="cluster.local")
    key, csr = signing_request()
    identities = [f"spiffe://cluster.local/ns/{namespace}/sa/default"]
    chain = b"".join(authority.sign(csr, identities=identities).chain_pem)
    return grpc.ssl_channel_credentials(authority.root_pem, key, chain)


@asynccontextmanager
async def connected(plane: Plane, namespace: str, *, over_tls: bool) -> AsyncIterator[GrpcWire]:
    if over_tls:
        credentials = shown(plane, namespace)
        opened = over_grpc(plane.secure_grpc, credentials=credentials, options=OPTIONS)
    else:
        opened = over_grpc(plane.grpc)
    async with opened as wire:
        yield wire


async def ask(
    plane: Plane,
    namespace: str,
    type_url: str,
    *names: str,
    over_tls: bool = True,
) -> Sequence[Any]:
    """Ask as istioctl does, as the service account `default` of a namespace; return resources."""
    request = discovery_pb2.DiscoveryRequest(
        type_url=type_url, resource_names=names, response_nonce="2026-11-29 16:00:00"
    )
    request.node.id = "sidecar~192.0.2.2~test-1.default~default.svc.cluster.local"
    request.node.metadata.update(
        {"GENERATOR": "event", "NAMESPACE": namespace, "SERVICE_ACCOUNT": "default"}
    )
    async with connected(plane, namespace, over_tls=over_tls) as wire:
        await wire.send(request.SerializeToString())
        response = discovery_pb2.DiscoveryResponse.FromString(await wire.receive())
    assert response.type_url == type_url
    return response.resources


async def page(plane: Plane, namespace: str, name: str) -> Any:
    (resource,) = await ask(plane, namespace, type_urls.DEBUG, name)
    assert resource.type_url == type_urls.DEBUG
    return json.loads(resource.value)


async def refusal(plane: Plane, *arguments: str, over_tls: bool = True) -> grpc.StatusCode:
    with pytest.raises(StreamEnded) as ended:
        await ask(plane, *arguments, over_tls=over_tls)
    return ended.value.code


@asynccontextmanager
async def proxy(plane: Plane, name: str, namespace: str) -> AsyncIterator[SotwClient]:
    """Keep a proxy connected that watches clusters and listeners."""
    async with connected(plane, namespace, over_tls=True) as wire:
        client = SotwClient(
            wire,
            node_id=f"sidecar~127.0.0.9~{name}.{namespace}~{namespace}.svc.cluster.local",
            metadata={
                "NAMESPACE": namespace,
                "INTERCEPTION_MODE": "NONE",
                "CLUSTER_ID": "one",
                "ISTIO_VERSION": "1.30.0",
            },
        )
        for url in (type_urls.CLUSTER, type_urls.LISTENER):
            await client.subscribe(url)
            await client.next()
        yield client


@pytest.fixture
async def plane(config_dir: Path, start_plane: Start) -> AsyncIterator[Plane]:
    """A control plane with the proxies web.shop and api.bank."""
    (config_dir / "web.yaml").write_text(entry("web", SERVICE.format("web"), namespace="shop"))
    started = await start_plane(
        config_dir, DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES="operators, audit"
    )
    async with proxy(started, "web", "shop"), proxy(started, "api", "bank"):
        yield started


def proxies_in(page: Any) -> list[str]:
    return sorted(each["proxy"] for each in page)


@pytest.mark.parametrize("namespace", ["istio-system", "operators", "audit"])
async def test_admins_ask_for_every_page_of_every_namespace(plane: Plane, namespace: str) -> None:
    assert proxies_in(await page(plane, namespace, "syncz")) == ["api.bank", "web.shop"]
    for name in await page(plane, namespace, "list"):
        if name not in ("config_dump", "ecdsz", "edsz", "ndsz"):
            await page(plane, namespace, name)
    dump = await page(plane, namespace, "config_dump?proxyID=api.bank")
    assert dump["configs"][0]["bootstrap"]["node"]["id"].startswith("sidecar~127.0.0.9~api.bank~")


async def test_a_page_has_the_fields_of_istios(plane: Plane) -> None:
    api, _ = sorted(await page(plane, "istio-system", "syncz"), key=lambda each: each["proxy"])
    assert (api["cluster_id"], api["istio_version"]) == ("one", "1.30.0")
    assert api["proxy_type"] == "sidecar"
    assert api["cluster_sent"] == api["cluster_acked"] != ""
    cluster = api["resources"][type_urls.CLUSTER]
    assert cluster["sent"] == cluster["acked"] == api["cluster_sent"]
    assert cluster["sentTime"].endswith("+00:00")
    clients = (await page(plane, "istio-system", "adsz"))["clients"]
    assert {type_urls.CLUSTER, type_urls.LISTENER} == set(clients[0]["watches"])
    assert (await page(plane, "istio-system", "connections"))["totalClients"] == 2


async def test_workloads_of_a_namespace_are_shown_its_proxies_alone(plane: Plane) -> None:
    dump = await page(plane, "shop", "config_dump?proxyID=web.shop")
    assert "outbound|80||web.test" in json.dumps(dump)
    for name in ("config_dump", "edsz", "ndsz"):
        (answer,) = await ask(plane, "shop", type_urls.DEBUG, f"{name}?proxyID=api.bank")
        # istioctl knows these words.
        assert b"Proxy not connected to this Pilot instance" in answer.value
        assert b"api.bank~" not in answer.value
        assert b"one of: web.shop\n" in answer.value
    for name in ("syncz", "configz", "registryz", "adsz", "connections", "status", "mesh", "list"):
        code = await refusal(plane, "shop", type_urls.DEBUG, name)
        assert code is grpc.StatusCode.PERMISSION_DENIED, name
    found = await ask(plane, "shop", type_urls.DEBUG_SYNC)
    assert [csds_pb2.ClientConfig.FromString(each.value).node.id for each in found] == ["web.shop"]
    assert await ask(plane, "shop", type_urls.DEBUG_CONFIG_DUMP, "api.bank") == []
    assert await ask(plane, "istio-system", type_urls.DEBUG_CONFIG_DUMP, "no.such") == []


@pytest.mark.parametrize(
    "question",
    [
        (type_urls.DEBUG, "syncz"),
        (type_urls.DEBUG, "config_dump?proxyID=web.shop"),
        (type_urls.DEBUG_SYNC,),
        (type_urls.DEBUG_CONFIG_DUMP, "web.shop"),
    ],
)
async def test_a_caller_in_plaintext_is_shown_nothing_even_if_it_is_believed(
    plane: Plane, question: tuple[str, ...]
) -> None:
    code = await refusal(plane, "istio-system", *question, over_tls=False)
    assert code is grpc.StatusCode.UNAUTHENTICATED


async def test_status_is_what_istioctl_reads(plane: Plane) -> None:
    found = {
        message.node.id: message
        for each in await ask(plane, "istio-system", type_urls.DEBUG_SYNC)
        for message in [csds_pb2.ClientConfig.FromString(each.value)]
    }
    assert sorted(found) == ["api.bank", "web.shop"]
    metadata = dict(found["api.bank"].node.metadata)
    assert metadata == {"CLUSTER_ID": "one", "NAMESPACE": "bank", "ISTIO_VERSION": "1.30.0"}
    configs = {each.type_url: each for each in found["api.bank"].generic_xds_configs}
    assert set(configs) == {type_urls.CLUSTER, type_urls.LISTENER}
    assert configs[type_urls.CLUSTER].config_status == csds_pb2.SYNCED


async def test_a_dump_has_the_sections_of_an_envoys(plane: Plane) -> None:
    found = await ask(plane, "istio-system", type_urls.DEBUG_CONFIG_DUMP, "web.shop")
    assert [each.type_url.rpartition(".")[2] for each in found] == [
        "BootstrapConfigDump",
        "ClustersConfigDump",
        "ListenersConfigDump",
        "ScopedRoutesConfigDump",
        "RoutesConfigDump",
        "SecretsConfigDump",
        "EcdsConfigDump",
    ]
    clusters = config_dump_shared_pb2.ClustersConfigDump.FromString(found[1].value)
    assert len(clusters.dynamic_active_clusters) > 1
    # The page for people has the same, and the endpoints for the asking.
    shown_page = await plane.get("/debug/config_dump?proxyID=web.shop&include_eds")
    kinds = [each["@type"].rpartition(".")[2] for each in shown_page["configs"]]
    assert "EndpointsConfigDump" in kinds
    some = await plane.get("/debug/config_dump?proxyID=web.shop&types=cds")
    assert {each["@type"] for each in some["configs"]} == {type_urls.CLUSTER}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("config_dump", b"You must provide a proxyID in the query string"),
        ("nosuch", b"404 page not found"),
        ("config_dump?proxyID=web.shop&types=xyz", b"types: xyz: expected some of cds"),
    ],
)
async def test_what_is_wrong_with_a_question_is_its_answer(
    plane: Plane, name: str, said: bytes
) -> None:
    (answer,) = await ask(plane, "istio-system", type_urls.DEBUG, name)
    assert answer.value.startswith(said)


async def test_a_question_has_one_name(plane: Plane) -> None:
    code = await refusal(plane, "istio-system", type_urls.DEBUG, "syncz", "mesh")
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    long = "config_dump?" + "&".join(f"{number}=" for number in range(100))
    assert await refusal(plane, "istio-system", type_urls.DEBUG, long) is (
        grpc.StatusCode.INVALID_ARGUMENT
    )


async def test_a_namespace_that_asks_without_end_is_held_to_its_rate_and_others_are_not(
    plane: Plane,
) -> None:
    with pytest.raises(StreamEnded) as ended:
        for _ in range(200):
            await ask(plane, "shop", type_urls.DEBUG_SYNC)
    assert ended.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(await ask(plane, "bank", type_urls.DEBUG_SYNC)) == 1


async def test_without_debug_pages_nothing_is_shown(config_dir: Path, start_plane: Start) -> None:
    plane = await start_plane(config_dir, ENABLE_DEBUG_ON_HTTP="false")
    assert "404" in await plane.get("/debug/syncz")
    assert await ask(plane, "istio-system", type_urls.DEBUG_SYNC) == []
    assert "/debug" not in (await plane.get("/")).partition("\n\n")[0]
