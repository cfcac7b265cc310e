"""GRPCRoutes at a real Envoy: calls of a gRPC client, answered by gRPC servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import grpc
import grpc.aio

from gateway_api_scenes import ROUTER_LABEL, gateway, route, service
from mesh_testkit import find_free_port
from scenarios import Echo, Scene


@asynccontextmanager
async def served(name: str, address: str) -> AsyncIterator[Echo]:
    """Serve every method of every service, with the name of the server as the answer."""

    async def answer(_request: bytes, _context: Any) -> bytes:
        return name.encode()

    class Everything(grpc.GenericRpcHandler):  # type: ignore[type-arg]
        def service(self, handler_call_details: Any) -> Any:  # noqa: ARG002
            return grpc.unary_unary_rpc_method_handler(answer)

    port = find_free_port(address)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Everything(),))
    server.add_insecure_port(f"{address}:{port}")
    await server.start()
    try:
        yield cast("Echo", SimpleNamespace(port=port, address=address))
    finally:
        await server.stop(0)


async def test_calls_are_routed_by_service_and_method(scene: Scene) -> None:
    port = scene.port()
    rules = (
        "{backendRefs: [{name: one, port: 80}]}, "
        "{matches: [{method: {service: shop.Cart}}], backendRefs: [{name: two, port: 80}]}, "
        "{matches: [{method: {service: shop.Cart, method: Add}, "
        "headers: [{name: stage, value: test}]}], backendRefs: [{name: one, port: 80}]}, "
        "{matches: [{method: {method: Gone}}], backendRefs: [{name: gone, port: 80}]}"
    )
    async with (
        served("one", scene.network.address()) as one,
        served("two", scene.network.address()) as two,
    ):
        await scene.apply(
            one=service("one", one, protocol="grpc"),
            two=service("two", two, protocol="grpc"),
            gateway=gateway(f"{{name: http, port: {port}, protocol: HTTP}}"),
            route=route(rules, kind="GRPCRoute"),
        )
        router = await scene.router(namespace="b", labels={ROUTER_LABEL: "gw"})
        async with grpc.aio.insecure_channel(f"{router.outbound_address}:{port}") as channel:

            async def call(method: str, **headers: str) -> str:
                try:
                    ask = channel.unary_unary(method, bytes, bytes)
                    answer = await ask(b"", metadata=tuple(headers.items()))
                except grpc.aio.AioRpcError as error:
                    return error.code().name
                return bytes(answer).decode()

            found = {
                method: await call(method)
                for method in (
                    "/shop.Cart/Add",
                    "/shop.Cart/Remove",
                    "/shop.Other/Add",
                    "/x.Y/Gone",
                )
            }
            assert found == {
                "/shop.Cart/Add": "two",
                "/shop.Cart/Remove": "two",
                "/shop.Other/Add": "one",
                "/x.Y/Gone": "UNKNOWN",
            }
            assert await call("/shop.Cart/Add", stage="test") == "one"
