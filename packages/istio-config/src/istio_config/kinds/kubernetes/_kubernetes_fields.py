"""The base of the structs of Kubernetes' kinds.

Objects from a cluster have a status, and many fields that mean nothing to a mesh. So unknown fields
pass here; a field that is read has to be right.
"""

import msgspec

from istio_config.addresses import is_ip


class KubernetesFields(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Some of the fields of an object; others may be there."""


class NoFields(KubernetesFields, frozen=True):
    """An object of which only the metadata is read."""


def wrong_address(text: str) -> str | None:
    """Return what is wrong with a text that should be an IP address."""
    return None if is_ip(text) else f'"{text}" is not an IP address'
