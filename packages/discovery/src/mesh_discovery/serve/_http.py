"""The two HTTP ports: readiness and the revocation list; metrics and debug pages."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from mesh_discovery._config import Address
from mesh_discovery._version import version
from mesh_discovery.serve._debug_pages import DebugPages
from mesh_discovery.serve._free_ports import CannotListenError, refusal
from mesh_lifecycle import Readiness
from mesh_listening import (
    HTTP_LIMITS,
    SERVED_WHEN_OUT_OF_FILES,
    ConnectionLimits,
    ListenError,
    accepting,
    format_address,
    listening_on,
    local_page_refusal,
    out_of_files,
)
from mesh_listening.prometheus import PortMetrics


def public_app(
    readiness: Readiness, *, revocation_list: Callable[[], bytes] | None = None
) -> web.Application:
    """Make the app of port 8080; `revocation_list` gives it as DER, for everyone."""

    async def ready(_: web.Request) -> web.Response:
        if (trouble := out_of_files()) is not None:
            return web.Response(status=503, text=f"open files: {trouble}\n")
        if readiness.ready:
            return web.Response(text="ready\n")
        return web.Response(status=503, text="\n".join(readiness.reasons()) + "\n")

    async def crl(_: web.Request) -> web.Response:
        if revocation_list is None:
            text = "no revocation list: this authority was plugged in, ask who made it\n"
            return web.Response(status=404, text=text)
        return web.Response(body=revocation_list(), content_type="application/pkix-crl")

    app = web.Application()
    app.router.add_get("/ready", ready)
    app.router.add_get("/ca.crl", crl)
    return app


def monitoring_app(registry: CollectorRegistry, pages: DebugPages) -> web.Application:
    """Make the app of port 15014; /debug answers programs of this machine only."""

    async def metrics(request: web.Request) -> web.Response:
        render, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=render(registry), headers={"Content-Type": content_type})

    async def version_page(_: web.Request) -> web.Response:
        return web.Response(text=f"{version()}\n")

    def page_of_proxy(
        make: Callable[[str], object],
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            proxy = request.query.get("proxyID", "")
            if (made := make(proxy)) is not None:
                return web.json_response(made)
            known = ", ".join(sorted(pages.proxy_ids())) or "none"
            text = f"no proxy {proxy!r} is connected; give ?proxyID= one of: {known}\n"
            return web.Response(status=404, text=text)

        return answer

    def page(make: Callable[[], object]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(_: web.Request) -> web.Response:
            return web.json_response(make())

        return answer

    async def distribution(_: web.Request) -> web.Response:
        return web.json_response(await pages.distribution())

    app = web.Application(middlewares=[_debug_for_loopback])
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/version", version_page)
    app.router.add_get("/debug/status", page(pages.status))
    app.router.add_get("/debug/syncz", page(pages.syncz))
    app.router.add_get("/debug/distribution", distribution)
    app.router.add_get("/debug/configz", page(pages.configz))
    app.router.add_get("/debug/registryz", page(pages.registryz))
    app.router.add_get("/debug/config_dump", page_of_proxy(pages.config_dump))
    app.router.add_get("/debug/ndsz", page_of_proxy(pages.ndsz))
    return app


@web.middleware
async def _debug_for_loopback(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    if request.path.startswith("/debug") and (reason := _refusal(request)) is not None:
        return web.Response(status=403, text=f"{reason}\n")
    return await handler(request)


def _refusal(request: web.Request) -> str | None:
    transport = request.transport
    own = None if transport is None else transport.get_extra_info("sockname")
    return local_page_refusal(
        peer=request.remote or "",
        own_address=own[0] if own else "",
        headers=request.headers.items(),
    )


@asynccontextmanager
async def serving_http(
    app: web.Application,
    address: Address,
    *,
    limits: ConnectionLimits = HTTP_LIMITS,
    ports: PortMetrics | None = None,
) -> AsyncIterator[str]:
    """Serve until the context is left; the value is host:port. Raises `CannotListenError`.

    ports: counts its connections.
    """
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=limits.idle_s
    )
    async with AsyncExitStack() as stack:
        try:
            sockets = stack.enter_context(listening_on(address.host, address.port))
        except ListenError as error:
            raise CannotListenError(refusal(address, error)) from error
        await runner.setup()
        protocol = runner.server
        if protocol is None:
            raise RuntimeError("a runner that is set up has a server")
        name = format_address(sockets[0])
        port = await stack.enter_async_context(
            accepting(
                sockets,
                protocol,
                name=name,
                limits=limits,
                watch_headers=True,
                served_when_out=SERVED_WHEN_OUT_OF_FILES,
            )
        )
        if ports is not None:
            ports.add(port)
        # Open connections get their answers; those that are left then are closed.
        stack.push_async_callback(runner.cleanup)
        yield name
