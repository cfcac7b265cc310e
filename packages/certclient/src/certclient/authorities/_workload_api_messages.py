"""The messages of the SPIFFE Workload API that are used here, in a descriptor pool of their own.

A generated module would register them in the pool that all of a process shares, where another
SPIFFE library's copy of the same file is an error.
https://github.com/spiffe/spiffe/blob/main/standards/workloadapi.proto
"""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FETCH_X509_SVID = "/SpiffeWorkloadAPI/FetchX509SVID"
SECURITY_HEADER = ("workload.spiffe.io", "true")
"""Every call must carry it, so that no browser or proxy can be talked into making one."""

_Field = descriptor_pb2.FieldDescriptorProto


@cache
def message_class(name: str) -> Any:
    """Return X509SVIDRequest, X509SVIDResponse or X509SVID."""
    descriptor = _pool().FindMessageTypeByName(name)
    return message_factory.GetMessageClass(descriptor)


@cache
def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="workload.proto", syntax="proto3")
    file.message_type.add(name="X509SVIDRequest")
    response = file.message_type.add(name="X509SVIDResponse")
    response.field.append(_field("svids", 1, message="X509SVID", repeated=True))
    response.field.append(_field("crl", 2, kind=_Field.TYPE_BYTES, repeated=True))
    svid = file.message_type.add(name="X509SVID")
    svid.field.append(_field("spiffe_id", 1, kind=_Field.TYPE_STRING))
    for number, name in enumerate(("x509_svid", "x509_svid_key", "bundle"), start=2):
        svid.field.append(_field(name, number, kind=_Field.TYPE_BYTES))
    svid.field.append(_field("hint", 5, kind=_Field.TYPE_STRING))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _field(
    name: str,
    number: int,
    *,
    kind: "_Field.Type.ValueType" = _Field.TYPE_MESSAGE,
    message: str = "",
    repeated: bool = False,
) -> descriptor_pb2.FieldDescriptorProto:
    field = _Field(
        name=name,
        number=number,
        type=kind,
        label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
    )
    if message:
        field.type_name = f".{message}"
    return field
