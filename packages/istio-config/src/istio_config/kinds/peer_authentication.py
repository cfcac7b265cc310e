"""PeerAuthentication: which inbound connections a mesh, a namespace or some workloads accept.

What it means for a workload is in `mesh_model`; what Envoys do about it, in `envoy_config`
(`plan/_inbound` at the server, `plan/_auto_mtls` at the client).
Source: Istio's API, security/v1.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from istio_config.kinds.checks import selector_mistakes
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.selection import WorkloadSelector
from mesh_configfile.shapes import Finding


class MutualTlsMode(StrEnum):
    """The connections that a workload accepts."""

    UNSET = "UNSET"
    DISABLE = "DISABLE"
    PERMISSIVE = "PERMISSIVE"
    STRICT = "STRICT"


class MutualTls(SpecFields, frozen=True):
    """A mode, as PeerAuthentication holds it."""

    mode: MutualTlsMode = MutualTlsMode.UNSET


class PeerAuthenticationSpec(SpecFields, frozen=True):
    """Which inbound connections a mesh, a namespace or a set of workloads accepts."""

    selector: WorkloadSelector | None = None
    mtls: MutualTls = MutualTls()
    port_level_mtls: dict[str, MutualTls] | None = None

    @property
    def by_port(self) -> Mapping[str, MutualTls]:
        """The modes of single ports."""
        return self.port_level_mtls or {}


def _mistakes(spec: PeerAuthenticationSpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.selector is not None:
        yield from selector_mistakes(spec.selector.match_labels, ("selector", "matchLabels"))
    for port in spec.by_port:
        if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            yield ("portLevelMtls", port), "is not a port; expected a number from 1 to 65535"
    if spec.port_level_mtls is None:
        return
    if not spec.port_level_mtls:
        yield ("portLevelMtls",), "is empty: give the mode of a port, or leave it out"
    elif spec.selector is None or not spec.selector.match_labels:
        yield ("portLevelMtls",), "needs a selector with matchLabels beside it"


def _warnings(spec: PeerAuthenticationSpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.selector is not None and not spec.selector.match_labels:
        yield ("selector",), "has no labels: it is for all workloads of the namespace"


PEER_AUTHENTICATION = Kind(
    name="PeerAuthentication",
    group="security.istio.io",
    versions=("v1", "v1beta1"),
    spec=PeerAuthenticationSpec,
    validate=_mistakes,
    warn=_warnings,
)
