"""Kubernetes' ConfigMap: certificates of authorities, which the Gateway API's objects refer to.

Of a ConfigMap nothing else is kept. What is wrong in it is reported where it is referred to: it may
be for another program.

Source: Kubernetes' API, v1, and the names of values in the Gateway API.
"""

import msgspec

from istio_config.kinds.fields import Unchecked
from istio_config.kinds.kind import Body, Kind
from istio_config.kinds.kubernetes._kubernetes_fields import KubernetesFields


class RootValues(KubernetesFields, frozen=True):
    """The values that are read."""

    ca_crt: Unchecked = msgspec.field(name="ca.crt", default=None)
    cacert: Unchecked = None
    ca_crl: Unchecked = msgspec.field(name="ca.crl", default=None)
    crl: Unchecked = None


class ConfigMapFields(KubernetesFields, frozen=True):
    """The fields of a ConfigMap."""

    data: RootValues | None = None

    @property
    def roots(self) -> bytes:
        """The certificates of authorities, PEM; empty: none."""
        return self._first("ca_crt", "cacert")

    @property
    def revocations(self) -> bytes:
        """The lists of revoked certificates, PEM; empty: none."""
        return self._first("ca_crl", "crl")

    def _first(self, *names: str) -> bytes:
        values = (getattr(self.data, each, None) for each in names)
        return next((each.encode() for each in values if isinstance(each, str) and each), b"")


CONFIG_MAP = Kind(
    name="ConfigMap", group="", versions=("v1",), spec=ConfigMapFields, body=Body.DOCUMENT
)
