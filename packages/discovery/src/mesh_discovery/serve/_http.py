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
from mesh_discovery.serve._index_page import ListedPage, html_index, text_index, wants_html
from mesh_discovery.serve._named_pages import NamedPages, NoPage
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

MONITORING_PAGES = (
    ListedPage("/", "This list, as text or as HTML."),
    ListedPage("/metrics", "Metrics of the control plane, for Prometheus."),
    ListedPage("/version", "The version of the control plane."),
    ListedPage("/debug/status", "What is not as configured; mesh-discovery status prints it."),
    ListedPage("/debug/distribution", "Whether every proxy has what is saved in the files."),
    ListedPage("/debug/list", "The names of the pages that can be asked for over xDS, too."),
    ListedPage("/debug/syncz", "What each proxy was sent, and what it has accepted or refused."),
    ListedPage("/debug/adsz", "The connected proxies, and what each of them watches."),
    ListedPage("/debug/connections", "The connected proxies, and since when."),
    ListedPage("/debug/mesh", "The mesh config that is served."),
    ListedPage("/debug/configz", "The configuration objects that are served, and where from."),
    ListedPage("/debug/registryz", "The services of the mesh and their endpoints."),
    ListedPage(
        "/debug/config_dump",
        "What one proxy is given, in the form of an Envoy's config dump.",
        query="?proxyID=ID",
    ),
    ListedPage("/debug/edsz", "The endpoints of one proxy.", query="?proxyID=ID"),
    ListedPage("/debug/ecdsz", "The extensions of one proxy.", query="?proxyID=ID"),
    ListedPage("/debug/ndsz", "The name table of one proxy.", query="?proxyID=ID"),
)
"""What the monitoring port has."""

_DEBUG_NOTE = "Pages below /debug answer programs of this machine only."
_NO_DEBUG_NOTE = "There are no pages below /debug: ENABLE_DEBUG_ON_HTTP is false."


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


def monitoring_app(
    registry: CollectorRegistry, pages: DebugPages, *, with_debug: bool = True
) -> web.Application:
    """Make the app of port 15014: `MONITORING_PAGES`; those below /debug only `with_debug`."""
    named = NamedPages(pages)
    served = [each for each in MONITORING_PAGES if with_debug or not _is_debug(each.path)]
    note = _DEBUG_NOTE if with_debug else _NO_DEBUG_NOTE

    async def metrics(request: web.Request) -> web.Response:
        render, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=render(registry), headers={"Content-Type": content_type})

    async def version_page(_: web.Request) -> web.Response:
        return web.Response(text=f"{version()}\n")

    def page(name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            try:
                document = named.page(name, request.query)
            except NoPage as missing:
                return web.Response(status=missing.status, text=missing.text)
            return web.json_response(document)

        return answer

    async def distribution(_: web.Request) -> web.Response:
        return web.json_response(await pages.distribution())

    async def index(request: web.Request) -> web.Response:
        if wants_html(request.headers.get("Accept", "")):
            text = html_index(served, note=note)
            return web.Response(text=text, content_type="text/html")
        return web.Response(text=text_index(served, note=note))

    handlers = {
        "/": index,
        "/metrics": metrics,
        "/version": version_page,
        "/debug/distribution": distribution,
        **{f"/debug/{name}": page(name) for name in (*named.names, "list")},
    }
    app = web.Application(middlewares=[_debug_for_loopback])
    for each in served:
        app.router.add_get(each.path, handlers[each.path])
    return app


def _is_debug(path: str) -> bool:
    return path == "/debug" or path.startswith("/debug/")


@web.middleware
async def _debug_for_loopback(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    if _is_debug(request.path) and (reason := _refusal(request)) is not None:
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
