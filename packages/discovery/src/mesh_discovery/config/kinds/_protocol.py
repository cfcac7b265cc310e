"""The protocols of service ports."""

from enum import StrEnum


class Protocol(StrEnum):
    """The protocol of a port; the names are Istio's."""

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
        """Read a protocol in upper or lower case; None when it is unknown."""
        try:
            return cls(text.upper())
        except ValueError:
            return None

    @classmethod
    def of_port(cls, protocol: str, name: str) -> "Protocol":
        """Take the protocol given, else the port name's prefix (`grpc-api`), else TCP.

        Istio detects the protocol of the traffic when there is neither; treated as TCP, every
        protocol works, only without routes.
        """
        if protocol and (given := cls.parse(protocol)) is not None:
            return given
        if name.lower().startswith("grpc-web"):
            return cls.GRPC_WEB
        return cls.parse(name.partition("-")[0]) or cls.TCP

    @property
    def is_http(self) -> bool:
        """Whether Envoy routes each request."""
        return self in _HTTP

    @property
    def is_http2(self) -> bool:
        """Whether Envoy must speak HTTP/2 to the application."""
        return self in (Protocol.HTTP2, Protocol.GRPC)


_HTTP = frozenset({Protocol.HTTP, Protocol.HTTP2, Protocol.GRPC, Protocol.GRPC_WEB})
