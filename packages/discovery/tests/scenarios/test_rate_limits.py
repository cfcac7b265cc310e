"""Limits of rates by EnvoyFilters: one proxy's own, and those of a service that all ask."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from envoy.service.ratelimit.v3 import rls_pb2

from gateway_documents import gateway, server, service, to, virtual_service
from patch_documents import FILTERS, before_router, envoy_filter, patch
from scenarios import MeshEnvoy, Scene

HOST = "s.b.svc.cluster.local"
LIMITS = "limits.b.svc.cluster.local"
LOCAL = {
    "name": "envoy.filters.http.local_ratelimit",
    "typed_config": {
        "@type": f"{FILTERS}.http.local_ratelimit.v3.LocalRateLimit",
        "stat_prefix": "http_local_rate_limiter",
        "token_bucket": {"max_tokens": 3, "tokens_per_fill": 3, "fill_interval": "3600s"},
        "filter_enabled": {
            "runtime_key": "enabled",
            "default_value": {"numerator": 100, "denominator": "HUNDRED"},
        },
        "filter_enforced": {
            "runtime_key": "enforced",
            "default_value": {"numerator": 100, "denominator": "HUNDRED"},
        },
        "response_headers_to_add": [{"header": {"key": "x-limited", "value": "local"}}],
    },
}
GLOBAL = {
    "name": "envoy.filters.http.ratelimit",
    "typed_config": {
        "@type": f"{FILTERS}.http.ratelimit.v3.RateLimit",
        "domain": "shop",
        "failure_mode_deny": True,
        "timeout": "10s",
        "rate_limit_service": {
            "grpc_service": {
                "envoy_grpc": {"cluster_name": f"outbound|80||{LIMITS}", "authority": LIMITS}
            },
            "transport_api_version": "V3",
        },
    },
}
BY_PATH = {
    "rate_limits": [
        {
            "actions": [
                {"request_headers": {"header_name": ":path", "descriptor_key": "PATH"}},
            ]
        }
    ]
}


async def statuses(proxy: MeshEnvoy, url: str, count: int) -> list[int]:
    """Return the statuses of so many requests, one after the other."""
    return [(await proxy.get(url)).status for _ in range(count)]


async def test_a_sidecar_limits_the_rate_of_its_workload_by_itself(scene: Scene) -> None:
    sidecar = await scene.sidecar("s", namespace="b", service_account="s", labels={"app": "s"})
    echo = await scene.echo("s", address=sidecar.app_address)
    client = await scene.sidecar("c")
    await scene.apply(
        service=service(sidecar.address, serviceAccount="s"),
        limit=envoy_filter(
            "limit",
            before_router(LOCAL, "SIDECAR_INBOUND"),
            namespace="b",
            workloadSelector={"labels": {"app": "s"}},
        ),
    )

    assert await statuses(client, f"http://{HOST}/", 5) == [200, 200, 200, 429, 429]
    assert (await client.get(f"http://{HOST}/")).headers["x-limited"] == "local"
    assert echo.count == 3
    limited = "http_local_rate_limiter.http_local_rate_limit.rate_limited"
    assert await sidecar.stat(limited) == 3


@dataclass
class Limits:
    """A rate limit service that lets each path pass so many times."""

    allowed: dict[str, int]
    asked: list[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=list)
    """The domain and the descriptor of each question."""

    async def answer(
        self, request: rls_pb2.RateLimitRequest, _context: Any
    ) -> rls_pb2.RateLimitResponse:
        (descriptor,) = request.descriptors
        entries = tuple((each.key, each.value) for each in descriptor.entries)
        self.asked.append((request.domain, entries))
        ((_, path),) = entries
        left = self.allowed.get(path)
        code = rls_pb2.RateLimitResponse.OK
        if left is not None:
            self.allowed[path] = left - 1
            code = code if left > 0 else rls_pb2.RateLimitResponse.OVER_LIMIT
        return rls_pb2.RateLimitResponse(overall_code=code)


@asynccontextmanager
async def serving(limits: Limits, address: str, port: int) -> AsyncIterator[None]:
    """Answer the questions of proxies at a place."""
    method = grpc.unary_unary_rpc_method_handler(
        limits.answer,
        request_deserializer=rls_pb2.RateLimitRequest.FromString,
        response_serializer=rls_pb2.RateLimitResponse.SerializeToString,
    )
    name = "envoy.service.ratelimit.v3.RateLimitService"
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(name, {"ShouldRateLimit": method}),)
    )
    server.add_insecure_port(f"{address}:{port}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


async def test_a_gateway_asks_a_service_for_the_limits_of_all(scene: Scene) -> None:
    """The service is one of the mesh: it is asked in mutual TLS, by its sidecar."""
    echo = await scene.echo("v1")
    limiter = await scene.sidecar("limits", namespace="b", service_account="limits")
    router, port = await scene.router(), scene.port()
    at_gateway: dict[str, Any] = {
        "workloadSelector": {"labels": {"istio": "ingressgateway"}},
        "namespace": "b",
    }
    limits = Limits({"/cart": 2})
    async with serving(limits, limiter.app_address, 8081):
        await scene.apply(
            service=service(echo.address),
            limits=service(
                limiter.address, host=LIMITS, port=8081, protocol="GRPC", serviceAccount="limits"
            ),
            gw=gateway(server("HTTP", port, "a.example")),
            vs=virtual_service("a.example", http=[{"route": to()}]),
            filter=envoy_filter("filter", before_router(GLOBAL, "GATEWAY"), **at_gateway),
            actions=envoy_filter(
                "actions",
                patch("VIRTUAL_HOST", "MERGE", BY_PATH, context="GATEWAY"),
                **at_gateway,
            ),
        )

        cart = await statuses(router, f"http://a.example:{port}/cart", 4)
        other = await statuses(router, f"http://a.example:{port}/other", 2)

    assert (cart, other) == ([200, 200, 429, 429], [200, 200])
    assert echo.count == 4
    assert set(limits.asked) == {("shop", (("PATH", "/cart"),)), ("shop", (("PATH", "/other"),))}
    question = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
    logged = await limiter.logged(path=question)
    assert logged["downstream_peer_uri_san"] == "spiffe://cluster.local/ns/b/sa/gw"
