"""Any bytes as a discovery request: the reader of spans and protobuf's library see the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest, DiscoveryRequest

from xds_server._errors import BadRequest
from xds_server.protocol._request import Parsed
from xds_server.protocol._request_messages import parse_delta_message, parse_sotw_message
from xds_server.protocol._request_parsing import parse_delta, parse_sotw


def check(data: bytes) -> None:
    """Both read the same request, or refuse with BadRequest; the first byte is the dialect."""
    if not data:
        return
    delta, data = data[0] & 1, data[1:]
    by_spans = _outcome(parse_delta if delta else parse_sotw, data)
    by_library = _outcome(parse_delta_message if delta else parse_sotw_message, data)
    if (
        by_spans is not None
        and by_library is not None
        and not _has_unknown(data, delta=bool(delta))
    ):
        assert by_spans.request == by_library.request
        assert by_spans.node == by_library.node


def _has_unknown(data: bytes, *, delta: bool) -> bool:
    """Say whether there are unknown fields: the library takes no entry of a map that has one."""
    message = (DeltaDiscoveryRequest if delta else DiscoveryRequest).FromString(data)
    size = message.ByteSize()
    message.DiscardUnknownFields()
    return bool(message.ByteSize() != size)


def _outcome(parse: Callable[..., Parsed], data: bytes) -> Parsed | None:
    try:
        return parse(data, with_node=True)
    except BadRequest:
        return None


def originals() -> Iterator[bytes]:
    """A first request with its node, an acknowledgement, a refusal, in both dialects."""
    first = DiscoveryRequest(type_url="type.googleapis.com/envoy.config.cluster.v3.Cluster")
    first.node.id = "sidecar~10.0.0.1~web.default~default.svc.cluster.local"
    first.node.metadata.update({"LABELS": {"app": "web"}, "NAMESPACE": "default"})
    first.node.locality.zone = "eu1"
    yield b"\0" + first.SerializeToString()
    yield (
        b"\0"
        + DiscoveryRequest(
            type_url=first.type_url, version_info="7", response_nonce="n", resource_names=["a", "b"]
        ).SerializeToString()
    )
    refusal = DeltaDiscoveryRequest(type_url=first.type_url, response_nonce="n")
    refusal.error_detail.code, refusal.error_detail.message = 3, "no"
    refusal.initial_resource_versions["outbound|80||web"] = "1"
    refusal.resource_names_subscribe.extend(["a", "*"])
    refusal.resource_names_unsubscribe.append("b")
    yield b"\1" + refusal.SerializeToString()
    yield b"\1" + DeltaDiscoveryRequest(node=first.node).SerializeToString()
