"""Istio's own extensions: which there are, what stands in for them, and what is lost without them.

Only what serves telemetry, or has an equal in stock Envoy, is taken out or translated. An extension
that decides about access is never just removed (`_authn`), and one that is not named here is left
for Envoy to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from xds_adapter import _stock as stock
from xds_adapter._extension_fields import HTTP_FILTERS
from xds_adapter._extensions import Extensions

_Make = Callable[[], bytes]


class Private(NamedTuple):
    """One extension.

    extension: its name for people.
    lost: what works no longer without it.
    stock_in: the category of the extensions that `make` may replace.
    needs: the type that `make` makes, which the Envoy must have.
    make: makes the stock configuration that stands in for it; None: it is removed.
    """

    extension: str
    lost: str
    stock_in: str = ""
    needs: str = ""
    make: _Make | None = None

    def substitute(self, category: str, extensions: Extensions) -> bytes | None:
        """Return the stock configuration for its place, None if it is to be removed there."""
        if self.make is None or category != self.stock_in or not extensions.has(self.needs):
            return None
        return self.make()


ALPN: Final = "istio.envoy.config.filter.http.alpn.v2alpha1.FilterConfig"
METADATA_EXCHANGE: Final = "envoy.tcp.metadataexchange.config.MetadataExchange"
PEER_METADATA: Final = "io.istio.http.peer_metadata.Config"
STATS: Final = "stats.PluginConfig"
AUTHN: Final = "istio.envoy.config.filter.http.authn.v2alpha1.FilterConfig"
_CONNECT_AUTHORITY = "io.istio.http.connect_authority.Config"

_NO_PEER = "peers do not learn of each other's workload: labels of source or destination are absent"
_NO_STATS = "Istio's standard metrics (istio_requests_total, istio_tcp_...) are not made"

_PEER = Private(
    "istio.metadata_exchange (HTTP)",
    f"{_NO_PEER}; the headers by which Istio's proxies tell each other are removed",
    stock_in=HTTP_FILTERS,
    needs=stock.HEADER_MUTATION,
    make=stock.without_peer_headers,
)
_STATS = Private("istio.stats", _NO_STATS)

BY_TYPE: Final[Mapping[str, Private]] = {
    ALPN: Private(
        "istio.alpn",
        "the protocol offered in mutual TLS (istio-h2 or istio-http/1.1) is that of the cluster and"
        " not that of the request",
        stock_in=HTTP_FILTERS,
        needs=stock.SET_FILTER_STATE,
        make=stock.alpn_from_cluster,
    ),
    METADATA_EXCHANGE: Private(
        "istio.metadata_exchange (TCP)",
        f"{_NO_PEER}; istio-peer-exchange is neither offered nor accepted",
    ),
    PEER_METADATA: _PEER,
    STATS: _STATS,
    _CONNECT_AUTHORITY: Private(
        "istio.connect_authority",
        "the principals of the tunnel are not passed on",
        stock_in=HTTP_FILTERS,
        needs=stock.SET_FILTER_STATE,
        make=stock.destination_from_authority,
    ),
    "envoy.config.trace.v3.OpenCensusConfig": Private("tracer opencensus", "no traces are sent"),
    "envoy.config.trace.v3.LightstepConfig": Private("tracer lightstep", "no traces are sent"),
}
"""By the type of the configuration."""

TYPE_BY_NAME: Final[Mapping[str, str]] = {
    "istio.alpn": ALPN,
    "istio.metadata_exchange": METADATA_EXCHANGE,
    "envoy.filters.network.metadata_exchange": METADATA_EXCHANGE,
    "envoy.filters.network.upstream.metadata_exchange": METADATA_EXCHANGE,
    "istio.stats": STATS,
    "istio_authn": AUTHN,
}
"""The type of those that are named without a type."""

NULL_PLUGINS: Final[Mapping[str, Private]] = {
    "envoy.wasm.metadata_exchange": _PEER,
    "envoy.wasm.stats": _STATS._replace(extension="istio.stats (Wasm)"),
    "envoy.wasm.attributegen": Private("istio.attributegen (Wasm)", "no attributes are generated"),
    "envoy.wasm.null.stackdriver": Private("istio.stackdriver (Wasm)", "Stackdriver gets nothing"),
    "envoy.wasm.access_log_policy": Private("istio.access_log_policy (Wasm)", "all is logged"),
    "envoy.wasm.null.access_log_policy": Private("istio.access_log_policy (Wasm)", "all is logged"),
}
"""Plugins that are compiled into Istio's Envoy and named as code of a Wasm module (null VM)."""


def is_istios_own(extensions: Extensions) -> bool:
    """Return whether this is Istio's own Envoy, which has these extensions."""
    return all(extensions.has(each) for each in (ALPN, METADATA_EXCHANGE, STATS))
