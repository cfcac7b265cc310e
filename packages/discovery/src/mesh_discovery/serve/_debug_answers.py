"""Debug pages over xDS: the types `istio.io/debug` and those below it, which istioctl asks for.

Source: pilot/pkg/xds/debuggen.go and statusgen.go in the Go module istio.io/istio.
"""

import json
from collections.abc import Mapping, Sequence

import grpc

from envoy_config import Proxy
from mesh_discovery.debug._config_dump import sections
from mesh_discovery.debug._sync_status import client_config
from mesh_discovery.serve._debug_callers import DebugCallers
from mesh_discovery.serve._debug_pages import DebugPages
from mesh_discovery.serve._named_pages import NamedPages, NoPage, asked_page
from mesh_protos import type_urls
from xds_server import Answerer, Client, Refused, Resource, content_version


def debug_answerers(pages: DebugPages, callers: DebugCallers) -> Mapping[str, Answerer[Proxy]]:
    """Return what answers each debug type, to be given to an `XdsServer`."""
    return {
        type_urls.DEBUG: _Pages(NamedPages(pages), callers),
        type_urls.DEBUG_SYNC: _Sync(pages, callers),
        type_urls.DEBUG_CONFIG_DUMP: _ConfigDump(NamedPages(pages), callers),
    }


class _Pages:
    """Any page by its name, as JSON; what is wrong with a question is the text of the answer."""

    def __init__(self, pages: NamedPages, callers: DebugCallers) -> None:
        self._pages = pages
        self._callers = callers

    def answer(self, client: Client[Proxy], names: frozenset[str], /) -> Sequence[Resource]:
        name = _only(names, what="the name of a page, such as syncz")
        try:
            asked = asked_page(name)
        except ValueError as error:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"{name[:256]!r}: {error}") from error
        with self._callers.answering(client, asked.name) as namespace:
            try:
                page = self._pages.page(asked.name, asked.query, namespace=namespace)
                body = json.dumps(page).encode()
            except NoPage as missing:
                body = missing.text.encode()
        version = content_version(body)
        return [Resource(name=name, type_url=type_urls.DEBUG, body=body, version=version)]


class _Sync:
    """The status of each proxy that the caller may see."""

    def __init__(self, pages: DebugPages, callers: DebugCallers) -> None:
        self._pages = pages
        self._callers = callers

    def answer(self, client: Client[Proxy], _names: frozenset[str], /) -> Sequence[Resource]:
        # As in Istio, every workload may ask this of its own namespace.
        with self._callers.answering(client, "syncz", for_own_namespace=True) as namespace:
            return [client_config(each) for each in self._pages.proxies(namespace=namespace)]


class _ConfigDump:
    """The sections of a proxy's config dump; none if there is no such proxy."""

    def __init__(self, pages: NamedPages, callers: DebugCallers) -> None:
        self._pages = pages
        self._callers = callers

    def answer(self, client: Client[Proxy], names: frozenset[str], /) -> Sequence[Resource]:
        query = {"proxyID": _only(names, what="the id of a proxy")}
        with self._callers.answering(client, "config_dump") as namespace:
            try:
                return sections(self._pages.given(query, namespace), with_endpoints=False)
            except NoPage:
                # As in Istio. An error would end the stream, which an agent's Envoy may have in
                # common with the operator who asks.
                return ()


def _only(names: frozenset[str], *, what: str) -> str:
    if len(names) != 1:
        raise Refused(
            grpc.StatusCode.INVALID_ARGUMENT, f"{len(names)} names are given, expected one: {what}"
        )
    return next(iter(names))
