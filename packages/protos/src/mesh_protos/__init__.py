"""The mesh's own protobuf messages and the names they go by on the wire.

Import the messages from `mesh_protos.ca_pb2`, `.nds_pb2`, `.health_pb2` and `.proxy_config_pb2`:
each loads only itself. Envoy's own messages come from the `xds-protos` distribution.
"""

from mesh_protos import type_urls

CREATE_CERTIFICATE = "/istio.v1.auth.IstioCertificateService/CreateCertificate"
"""The gRPC method that signs a certificate: `ca_pb2.IstioCertificateRequest` to `...Response`."""

__all__ = ["CREATE_CERTIFICATE", "type_urls"]
