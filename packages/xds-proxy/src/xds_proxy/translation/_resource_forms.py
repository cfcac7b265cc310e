"""A resource in the forms of both dialects, and the fields of a response that both have.

A state-of-the-world response has a resource as a `google.protobuf.Any`; delta puts that into a
`Resource`, with its name and version. Where the dialect without names needs a name or a time to
live nonetheless, the `Any` holds a `Resource`, which Envoy and gRPC take as well.
Field numbers: envoy/service/discovery/v3/discovery.proto; envoy/config/cluster/v3/cluster.proto.
"""

from __future__ import annotations

from hashlib import blake2b

from mesh_protowire import WireError, bytes_field, scan, string_field, text
from xds_proxy.protocol._dialect import Dialect
from xds_proxy.protocol._resources import Resource, name_in, unwrap, wrap
from xds_proxy.translation._types import is_envoys

_ANY_TYPE_URL, _ANY_VALUE = 1, 2
_IN_ANY = frozenset({_ANY_TYPE_URL, _ANY_VALUE})
_WRAPPER = "type.googleapis.com/envoy.service.discovery.v3.Resource"
_TTL, _ALIASES = 6, 4

_CARRIED = {
    # of a response: the control plane's description, and errors of single resources
    False: (6, 7),
    True: (7, 9),
}
_EDS_CONFIG, _EDS_SERVICE_NAME, _CLUSTER_NAME = 3, 2, 1
_VERSION_BYTES = 12


def has_ttl(resource: Resource) -> bool:
    """Return whether a delta resource has a time to live."""
    return bool(resource.more) and _TTL in scan(resource.more, frozenset({_TTL}))


def aliases(resource: Resource) -> tuple[str, ...]:
    """Return the other names of a delta resource."""
    if not resource.more:
        return ()
    found = scan(resource.more, frozenset({_ALIASES}))
    return tuple(text(resource.more, [span]) for span in found.get(_ALIASES, ()))


def as_any(type_url: str, resource: Resource) -> bytes:
    """Return a delta resource as the `Any` of a state-of-the-world response."""
    if not is_envoys(type_url):
        return resource.body
    if not has_ttl(resource) and name_in(resource.body) == resource.name:
        return resource.body
    return string_field(_ANY_TYPE_URL, _WRAPPER) + bytes_field(_ANY_VALUE, wrap(resource))


def as_resource(type_url: str, resource: Resource) -> Resource:
    """Return a resource of a state-of-the-world response as one of delta.

    Its version is the one that it has, or a hash of its content.
    """
    found = scan(resource.body, _IN_ANY)
    inner = text(resource.body, found.get(_ANY_TYPE_URL))
    if inner == _WRAPPER:
        start, end = found.get(_ANY_VALUE, [(0, 0)])[-1]
        resource = unwrap(resource.body[start:end])
    elif not is_envoys(type_url):
        resource = resource._replace(name="")
    if resource.version or not resource.body:
        return resource
    digest = blake2b(resource.body + resource.more, digest_size=_VERSION_BYTES)
    return resource._replace(version=digest.hexdigest())


def copy_common_fields(response: bytes, *, source: Dialect, target: Dialect) -> bytes:
    """Return the fields of a response that both dialects have, as fields of the target's.

    These are the control plane's description of itself, and errors of single resources.
    """
    numbers = _CARRIED[source.resources_are_wrapped]
    found = scan(response, frozenset(numbers))
    return b"".join(
        bytes_field(target_number, response[start:end])
        for number, target_number in zip(
            numbers, _CARRIED[target.resources_are_wrapped], strict=True
        )
        for start, end in found.get(number, ())
    )


def endpoints_of(cluster: bytes) -> str | None:
    """Return the name of a cluster's endpoints; None if it does not get them over xDS.

    cluster: an `Any`. What cannot be read has none: whether it is valid is for Envoy to say.
    """
    try:
        start, end = scan(cluster, _IN_ANY).get(_ANY_VALUE, [(0, 0)])[-1]
        found = scan(cluster, frozenset({_CLUSTER_NAME, _EDS_CONFIG}), start, end)
        configs = found.get(_EDS_CONFIG)
        if configs is None:
            return None
        config = b"".join(cluster[first:last] for first, last in configs)
        service = text(config, scan(config, frozenset({_EDS_SERVICE_NAME})).get(_EDS_SERVICE_NAME))
        return service or text(cluster, found.get(_CLUSTER_NAME))
    except WireError:
        return None
