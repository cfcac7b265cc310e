"""The fields of matches: the conditions under which a route applies.

Source: Istio's API, networking/v1.
"""

import msgspec

from istio_config.kinds.fields import Labels, PortNumber, SpecFields


class StringMatch(SpecFields, frozen=True):
    """A condition on a text; one without any is met by every text that is there."""

    exact: str | None = None
    prefix: str | None = None
    regex: str | None = None


class HttpMatch(SpecFields, frozen=True):
    """A condition on requests (Istio's HTTPMatchRequest): all that is given must hold."""

    name: str = ""
    uri: StringMatch | None = None
    scheme: StringMatch | None = None
    method: StringMatch | None = None
    authority: StringMatch | None = None
    headers: dict[str, StringMatch] = msgspec.field(default_factory=dict)
    without_headers: dict[str, StringMatch] = msgspec.field(default_factory=dict)
    query_params: dict[str, StringMatch] = msgspec.field(default_factory=dict)
    ignore_uri_case: bool = False
    port: PortNumber | None = None
    source_labels: Labels = msgspec.field(default_factory=dict)
    source_namespace: str = ""
    gateways: tuple[str, ...] = ()
    stat_prefix: str = ""


class TlsMatch(SpecFields, frozen=True):
    """A condition on TLS connections (Istio's TLSMatchAttributes)."""

    sni_hosts: tuple[str, ...] = ()
    destination_subnets: tuple[str, ...] = ()
    port: PortNumber | None = None
    source_labels: Labels = msgspec.field(default_factory=dict)
    source_namespace: str = ""
    gateways: tuple[str, ...] = ()


class TcpMatch(SpecFields, frozen=True):
    """A condition on connections (Istio's L4MatchAttributes)."""

    destination_subnets: tuple[str, ...] = ()
    port: PortNumber | None = None
    source_subnet: str = ""
    source_labels: Labels = msgspec.field(default_factory=dict)
    source_namespace: str = ""
    gateways: tuple[str, ...] = ()
