"""The spelling of header names in HTTP/1.1, which proxies keep where mesh config asks for it."""

from envoy.config.core.v3 import extension_pb2
from envoy.extensions.http.header_formatters.preserve_case.v3 import preserve_case_pb2

from envoy_config.generate._messages import packed, protocol_pb2
from mesh_model import MeshModel


def keeps_case(model: MeshModel) -> bool:
    """Return whether the names of headers reach services as clients write them."""
    headers = model.mesh_config.default_config.proxy_headers
    return headers is not None and bool(headers.preserve_http1_header_case)


def preserved_case() -> protocol_pb2.Http1ProtocolOptions.HeaderKeyFormat:
    """Make the format of headers whose names stay as they are written."""
    formatter = extension_pb2.TypedExtensionConfig(
        name="preserve_case",
        typed_config=packed(preserve_case_pb2.PreserveCaseFormatterConfig()),
    )
    return protocol_pb2.Http1ProtocolOptions.HeaderKeyFormat(stateful_formatter=formatter)
