from google.protobuf import wrappers_pb2 as _wrappers_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProxyConfig(_message.Message):
    __slots__ = ("config_path", "binary_path", "discovery_address", "proxy_admin_port", "concurrency", "proxy_metadata", "status_port", "mesh_id", "ca_certificates_pem")
    class ProxyMetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONFIG_PATH_FIELD_NUMBER: _ClassVar[int]
    BINARY_PATH_FIELD_NUMBER: _ClassVar[int]
    DISCOVERY_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PROXY_ADMIN_PORT_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    PROXY_METADATA_FIELD_NUMBER: _ClassVar[int]
    STATUS_PORT_FIELD_NUMBER: _ClassVar[int]
    MESH_ID_FIELD_NUMBER: _ClassVar[int]
    CA_CERTIFICATES_PEM_FIELD_NUMBER: _ClassVar[int]
    config_path: str
    binary_path: str
    discovery_address: str
    proxy_admin_port: int
    concurrency: _wrappers_pb2.Int32Value
    proxy_metadata: _containers.ScalarMap[str, str]
    status_port: int
    mesh_id: str
    ca_certificates_pem: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, config_path: _Optional[str] = ..., binary_path: _Optional[str] = ..., discovery_address: _Optional[str] = ..., proxy_admin_port: _Optional[int] = ..., concurrency: _Optional[_Union[_wrappers_pb2.Int32Value, _Mapping]] = ..., proxy_metadata: _Optional[_Mapping[str, str]] = ..., status_port: _Optional[int] = ..., mesh_id: _Optional[str] = ..., ca_certificates_pem: _Optional[_Iterable[str]] = ...) -> None: ...
