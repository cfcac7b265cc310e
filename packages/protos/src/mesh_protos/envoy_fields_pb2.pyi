from google.protobuf import wrappers_pb2 as _wrappers_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatsLoggerScope(_message.Message):
    __slots__ = ("stats_scope",)
    STATS_SCOPE_FIELD_NUMBER: _ClassVar[int]
    stats_scope: Scope
    def __init__(self, stats_scope: _Optional[_Union[Scope, _Mapping]] = ...) -> None: ...

class Scope(_message.Message):
    __slots__ = ("max_counters", "max_gauges", "max_histograms", "enable_eviction", "prefix", "sharing_name")
    MAX_COUNTERS_FIELD_NUMBER: _ClassVar[int]
    MAX_GAUGES_FIELD_NUMBER: _ClassVar[int]
    MAX_HISTOGRAMS_FIELD_NUMBER: _ClassVar[int]
    ENABLE_EVICTION_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SHARING_NAME_FIELD_NUMBER: _ClassVar[int]
    max_counters: _wrappers_pb2.UInt32Value
    max_gauges: _wrappers_pb2.UInt32Value
    max_histograms: _wrappers_pb2.UInt32Value
    enable_eviction: bool
    prefix: str
    sharing_name: str
    def __init__(self, max_counters: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ..., max_gauges: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ..., max_histograms: _Optional[_Union[_wrappers_pb2.UInt32Value, _Mapping]] = ..., enable_eviction: bool = ..., prefix: _Optional[str] = ..., sharing_name: _Optional[str] = ...) -> None: ...

class FilterStateAfterHandshake(_message.Message):
    __slots__ = ("on_downstream_tls_handshake",)
    ON_DOWNSTREAM_TLS_HANDSHAKE_FIELD_NUMBER: _ClassVar[int]
    on_downstream_tls_handshake: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, on_downstream_tls_handshake: _Optional[_Iterable[bytes]] = ...) -> None: ...
