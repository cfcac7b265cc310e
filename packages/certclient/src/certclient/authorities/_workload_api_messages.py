"""The messages of the SPIFFE Workload API that are used here, in a descriptor pool of their own.

A generated module would register them in the pool that all of a process shares, where another
SPIFFE library's copy of the same file is an error.
https://github.com/spiffe/spiffe/blob/main/standards/workloadapi.proto
"""

from functools import cache
from typing import TYPE_CHECKING, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from google.protobuf.internal.containers import (
        RepeatedCompositeFieldContainer,
        RepeatedScalarFieldContainer,
    )
    from google.protobuf.message import Message

    class X509Svid(Message):
        """One identity: DER, and an optional hint."""

        spiffe_id: str
        x509_svid: bytes
        x509_svid_key: bytes
        bundle: bytes
        hint: str

    class X509SvidRequest(Message):
        """Asks for all identities of the caller."""

    class X509SvidResponse(Message):
        """The identities, and revocation lists as DER."""

        svids: RepeatedCompositeFieldContainer[X509Svid]
        crl: RepeatedScalarFieldContainer[bytes]


FETCH_X509_SVID = "/SpiffeWorkloadAPI/FetchX509SVID"
SECURITY_HEADER = ("workload.spiffe.io", "true")
"""Every call must carry it, so that no browser or proxy can be tricked into making one."""

_Field = descriptor_pb2.FieldDescriptorProto


@cache
def request_class() -> "type[X509SvidRequest]":
    """Return the class of the request."""
    return cast("type[X509SvidRequest]", _message_class("X509SVIDRequest"))


@cache
def response_class() -> "type[X509SvidResponse]":
    """Return the class of the response."""
    return cast("type[X509SvidResponse]", _message_class("X509SVIDResponse"))


def _message_class(name: str) -> "type[Message]":
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
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
