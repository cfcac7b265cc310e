"""Takes what must not be shown out of resources that are."""

from mesh_protos import type_urls
from xds_server import Resource

_REDACTED = b"[redacted]"
_WASM = frozenset(f"envoy.extensions.filters.{level}.wasm.v3.Wasm" for level in ("http", "network"))
"""Both have the same fields."""
_PULL_SECRET = "ISTIO_META_WASM_IMAGE_PULL_SECRET"  # noqa: S105 - the name of a variable


def without_secrets(resource: Resource) -> Resource:
    """Return a resource as it may be shown: without keys, and without secrets of registries."""
    if resource.type_url == type_urls.SECRET:
        return _public_secret(resource)
    if resource.type_url == type_urls.EXTENSION_CONFIG and _PULL_SECRET.encode() in resource.body:
        return _without_pull_secret(resource)
    return resource


def _public_secret(resource: Resource) -> Resource:
    from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

    whole = secret_pb2.Secret.FromString(resource.body)
    shown = secret_pb2.Secret(name=whole.name)
    # What is public is copied, and all else left out, so that a field added to the message later is
    # not shown either.
    if whole.HasField("tls_certificate"):
        certificate = shown.tls_certificate
        certificate.certificate_chain.CopyFrom(whole.tls_certificate.certificate_chain)
        certificate.private_key.inline_bytes = _REDACTED
    if whole.HasField("validation_context"):
        shown.validation_context.CopyFrom(whole.validation_context)
    return Resource.pack(shown, name=resource.name)


def _without_pull_secret(resource: Resource) -> Resource:
    from envoy.config.core.v3 import extension_pb2
    from envoy.extensions.filters.http.wasm.v3 import wasm_pb2

    config = extension_pb2.TypedExtensionConfig.FromString(resource.body)
    if config.typed_config.type_url.rpartition("/")[2] in _WASM:
        wasm = wasm_pb2.Wasm.FromString(config.typed_config.value)
        variables = wasm.config.vm_config.environment_variables.key_values
        if _PULL_SECRET in variables:
            variables[_PULL_SECRET] = _REDACTED.decode()
        config.typed_config.value = wasm.SerializeToString(deterministic=True)
    return Resource.pack(config, name=resource.name)
