"""The stock configurations, read with Envoy's own classes."""

from __future__ import annotations

from envoy.config.core.v3 import base_pb2
from envoy.config.rbac.v3 import rbac_pb2 as rules_pb2
from envoy.extensions.filters.http.header_mutation.v3 import header_mutation_pb2
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2
from envoy.extensions.filters.http.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.filters.network.rbac.v3 import rbac_pb2 as network_rbac_pb2
from google.protobuf import any_pb2, message, unknown_fields

from xds_adapter import _stock as stock


def read(config: bytes, into: message.Message) -> None:
    packed = any_pb2.Any.FromString(config)
    assert packed.Unpack(into)
    _known(into)


def _known(found: message.Message) -> None:
    assert len(unknown_fields.UnknownFieldSet(found)) == 0
    for field, value in found.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in value if field.is_repeated else [value]:
                _known(each)


def test_alpn_comes_from_the_clusters_metadata() -> None:
    config = set_filter_state_pb2.Config()
    read(stock.alpn_from_cluster(), config)
    (value,) = config.on_request_headers
    assert value.object_key == "envoy.network.application_protocols"
    assert value.format_string.omit_empty_values
    assert value.skip_if_empty
    assert value.shared_with_upstream == value.ONCE
    text = value.format_string.text_format_source.inline_string
    assert text == "%CLUSTER_METADATA(xds_adapter:alpn)%"
    metadata = base_pb2.Metadata.FromString(stock.alpn_metadata(["istio-h2", "istio"]))
    assert metadata.filter_metadata["xds_adapter"]["alpn"] == "istio-h2,istio"


def test_peer_headers_are_removed_from_requests_and_responses() -> None:
    config = header_mutation_pb2.HeaderMutation()
    read(stock.without_peer_headers(), config)
    for mutations in (config.mutations.request_mutations, config.mutations.response_mutations):
        removed = [each.remove for each in mutations]
        assert removed == ["x-envoy-peer-metadata", "x-envoy-peer-metadata-id"]


def test_rules_that_allow_nothing_deny_all() -> None:
    config = rbac_pb2.RBAC()
    read(stock.deny_all(), config)
    assert config.HasField("rules")
    assert config.rules.action == rules_pb2.RBAC.ALLOW
    assert not config.rules.policies


def test_a_client_certificate_is_required() -> None:
    config = rbac_pb2.RBAC()
    read(stock.require_client_certificate(), config)
    (policy,) = config.rules.policies.values()
    assert policy.permissions[0].any
    assert policy.principals[0].HasField("authenticated")
    assert not policy.principals[0].authenticated.HasField("principal_name")


def test_filters_that_do_nothing_have_no_rules() -> None:
    of_http, of_network = rbac_pb2.RBAC(), network_rbac_pb2.RBAC()
    read(stock.no_op(), of_http)
    assert of_http == rbac_pb2.RBAC()
    read(stock.network_no_op(), of_network)
    assert of_network == network_rbac_pb2.RBAC(stat_prefix="xds_adapter.")


def test_the_authority_is_the_destination_and_the_client_the_source() -> None:
    config = set_filter_state_pb2.Config()
    read(stock.destination_from_authority(), config)
    found = {
        value.object_key: value.format_string.text_format_source.inline_string
        for value in config.on_request_headers
    }
    assert found == {
        "envoy.filters.listener.original_dst.local_ip": "%REQ(:AUTHORITY)%",
        "envoy.filters.listener.original_dst.remote_ip": "%DOWNSTREAM_REMOTE_ADDRESS%",
    }
    for value in config.on_request_headers:
        assert value.shared_with_upstream == value.ONCE
        # A request without an authority leads nowhere, not to where the one before it went.
        assert not value.skip_if_empty
        assert not value.format_string.omit_empty_values
