"""The messages of Istio's own extensions, as far as tests make them: in protobuf's default pool.

Field numbers: istio/api envoy/config/filter/http/{alpn,authn}/v2alpha1/config.proto and
authentication/v1alpha1/policy.proto.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

_FieldType = descriptor_pb2.FieldDescriptorProto
_STRING, _BOOL, _MESSAGE, _ENUM = (
    _FieldType.TYPE_STRING,
    _FieldType.TYPE_BOOL,
    _FieldType.TYPE_MESSAGE,
    _FieldType.TYPE_ENUM,
)
_ONE, _MANY = _FieldType.LABEL_OPTIONAL, _FieldType.LABEL_REPEATED


def _message(
    name: str, *fields: tuple[str, int, _FieldType.Type.ValueType, _FieldType.Label.ValueType, str]
) -> descriptor_pb2.DescriptorProto:
    message = descriptor_pb2.DescriptorProto(name=name)
    for field_name, number, kind, label, type_name in fields:
        found = message.field.add(name=field_name, number=number, type=kind, label=label)
        if type_name:
            found.type_name = type_name
    return message


def _file(
    package: str,
    messages: list[descriptor_pb2.DescriptorProto],
    enums: dict[str, list[str]],
    *imports: str,
) -> None:
    content = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}/test.proto",
        package=package,
        syntax="proto3",
        message_type=messages,
        dependency=imports,
    )
    for name, values in enums.items():
        enum = content.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    descriptor_pool.Default().Add(content)


def _add() -> None:
    struct_pb2.Struct()  # its file is in the pool
    alpn = "istio.envoy.config.filter.http.alpn.v2alpha1"
    _file(
        alpn,
        [
            _message(
                "AlpnOverride",
                ("upstream_protocol", 1, _ENUM, _ONE, f".{alpn}.Protocol"),
                ("alpn_override", 2, _STRING, _MANY, ""),
            ),
            _message(
                "FilterConfig", ("alpn_override", 1, _MESSAGE, _MANY, f".{alpn}.AlpnOverride")
            ),
        ],
        {"Protocol": ["HTTP10", "HTTP11", "HTTP2"]},
    )
    policy = "istio.authentication.v1alpha1"
    _file(
        policy,
        [
            _message(
                "MutualTls",
                ("allow_tls", 1, _BOOL, _ONE, ""),
                ("mode", 2, _ENUM, _ONE, f".{policy}.Mode"),
            ),
            _message("Jwt", ("issuer", 1, _STRING, _ONE, "")),
            _message(
                "Peer",
                ("mtls", 1, _MESSAGE, _ONE, f".{policy}.MutualTls"),
                ("jwt", 2, _MESSAGE, _ONE, f".{policy}.Jwt"),
            ),
            _message("Origin", ("jwt", 1, _MESSAGE, _ONE, f".{policy}.Jwt")),
            _message(
                "Policy",
                ("peers", 2, _MESSAGE, _MANY, f".{policy}.Peer"),
                ("peer_is_optional", 3, _BOOL, _ONE, ""),
                ("origins", 4, _MESSAGE, _MANY, f".{policy}.Origin"),
                ("origin_is_optional", 5, _BOOL, _ONE, ""),
                ("principal_binding", 6, _ENUM, _ONE, f".{policy}.Binding"),
            ),
        ],
        {"Mode": ["STRICT", "PERMISSIVE"], "Binding": ["USE_PEER", "USE_ORIGIN"]},
    )
    _file(
        "istio.envoy.config.filter.http.authn.v2alpha1",
        [
            _message(
                "FilterConfig",
                ("policy", 1, _MESSAGE, _ONE, f".{policy}.Policy"),
                ("skip_validate_trust_domain", 3, _BOOL, _ONE, ""),
            )
        ],
        {},
        f"{policy.replace('.', '/')}/test.proto",
    )


_add()
