"""Protocols of service ports, and what each means to Envoy."""

from enum import StrEnum


class Protocol(StrEnum):
    """What a port speaks; the names are Istio's."""

    HTTP = "HTTP"
    HTTP2 = "HTTP2"
    GRPC = "GRPC"
    GRPC_WEB = "GRPC-WEB"
    HTTPS = "HTTPS"
    TLS = "TLS"
    TCP = "TCP"
    MONGO = "MONGO"
    MYSQL = "MYSQL"
    REDIS = "REDIS"
    UDP = "UDP"

    @classmethod
    def parse(cls, text: str) -> "Protocol | None":
        """Read a protocol in any case; None when there is no such."""
        return cls._value2member_map_.get(text.upper())  # type: ignore[return-value]

    @classmethod
    def of_port(cls, protocol: str, name: str) -> "Protocol":
        """Take the protocol given, else the port name's prefix (`grpc-api`), else TCP.

        Istio looks into the traffic when neither says; a port that holds its bytes to be opaque
        works for every protocol, only without routes.
        """
        if protocol and (given := cls.parse(protocol)) is not None:
            return given
        if name.lower().startswith("grpc-web"):
            return cls.GRPC_WEB
        return cls.parse(name.partition("-")[0]) or cls.TCP

    @property
    def is_http(self) -> bool:
        """Whether requests are seen and routed one by one."""
        return self in _HTTP

    @property
    def is_http2(self) -> bool:
        """Whether the application itself must be spoken to in HTTP/2."""
        return self in (Protocol.HTTP2, Protocol.GRPC)


_HTTP = frozenset({Protocol.HTTP, Protocol.HTTP2, Protocol.GRPC, Protocol.GRPC_WEB})
