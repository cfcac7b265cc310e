"""No key and no password is in a resource that is shown."""

import pytest
from envoy.config.core.v3 import extension_pb2
from envoy.extensions.filters.http.wasm.v3 import wasm_pb2
from envoy.extensions.filters.network.wasm.v3 import wasm_pb2 as network_pb2
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

from mesh_discovery.debug._redaction import without_secrets
from xds_server import Resource

CANARY = "canary-that-no-page-shows"


def test_a_certificate_is_shown_without_its_key() -> None:
    secret = secret_pb2.Secret(name="kubernetes://shop")
    secret.tls_certificate.certificate_chain.inline_string = "chain"
    secret.tls_certificate.private_key.inline_string = CANARY
    secret.tls_certificate.password.inline_string = CANARY
    secret.tls_certificate.private_key_provider.provider_name = CANARY
    shown = without_secrets(Resource.pack(secret, name=secret.name))
    assert CANARY.encode() not in shown.body
    found = secret_pb2.Secret.FromString(shown.body)
    assert found.tls_certificate.certificate_chain.inline_string == "chain"
    assert found.tls_certificate.private_key.inline_bytes == b"[redacted]"


def test_roots_are_shown_and_secrets_of_other_kinds_are_not() -> None:
    roots = secret_pb2.Secret(name="ROOTCA")
    roots.validation_context.trusted_ca.inline_string = "root"
    shown = without_secrets(Resource.pack(roots, name=roots.name))
    assert secret_pb2.Secret.FromString(shown.body) == roots
    for kind in ("generic_secret", "session_ticket_keys"):
        secret = secret_pb2.Secret(name=kind)
        if kind == "generic_secret":
            secret.generic_secret.secret.inline_string = CANARY
        else:
            secret.session_ticket_keys.keys.add().inline_string = CANARY
        shown = without_secrets(Resource.pack(secret, name=kind))
        assert CANARY.encode() not in shown.body


@pytest.mark.parametrize("kind", [wasm_pb2.Wasm, network_pb2.Wasm])
def test_a_wasm_filter_is_shown_without_the_secret_of_its_registry(
    kind: type[wasm_pb2.Wasm] | type[network_pb2.Wasm],
) -> None:
    wasm = kind()
    variables = wasm.config.vm_config.environment_variables.key_values
    variables["ISTIO_META_WASM_IMAGE_PULL_SECRET"] = CANARY
    variables["OTHER"] = "shown"
    config = extension_pb2.TypedExtensionConfig(name="wasm")
    config.typed_config.Pack(wasm)
    shown = without_secrets(Resource.pack(config, name="wasm"))
    assert CANARY.encode() not in shown.body
    assert b"shown" in shown.body
