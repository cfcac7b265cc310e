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
    AUTO = "AUTO"
    """Not declared: detected by the first bytes where proxies get redirected traffic, else TCP."""

    @classmethod
    def parse(cls, text: str) -> "Protocol | None":
        """Read a protocol in upper or lower case; None when it is unknown."""
        return _BY_NAME.get(text.upper())

    @classmethod
    def declared(cls, text: str) -> "Protocol":
        """Read the `protocol` of a port of Istio's kinds; AUTO when it is empty.

        The port's name has no say, other than at ports of Kubernetes' services.
        """
        return cls.parse(text) or cls.AUTO

    @classmethod
    def from_port_name(cls, name: str) -> "Protocol | None":
        """Read the protocol that the first word of a port's name says (`grpc-api`), if any."""
        if name.lower().startswith("grpc-web"):
            return cls.GRPC_WEB
        return cls.parse(name.partition("-")[0])

    @classmethod
    def from_kubernetes_port(cls, app_protocol: str | None, name: str, number: int) -> "Protocol":
        """Read the first word of `appProtocol`, else that of the port's name; else it is AUTO.

        Then the ports of SMTP, DNS, MySQL and MongoDB are TCP, as applications on them break if the
        protocol is detected by what clients send (Istio's `wellKnownPorts`).
        """
        if app_protocol in _KUBERNETES:
            return _KUBERNETES[app_protocol]
        text = name if app_protocol is None else app_protocol
        undeclared = cls.TCP if number in _SERVER_FIRST else cls.AUTO
        return cls.from_port_name(text) or undeclared

    @property
    def is_http(self) -> bool:
        """Whether Envoy routes each request."""
        return self in _HTTP

    @property
    def is_http2(self) -> bool:
        """Whether Envoy must speak HTTP/2 to the application."""
        return self in (Protocol.HTTP2, Protocol.GRPC)

    @property
    def is_tls(self) -> bool:
        """Whether clients encrypt, so that Envoy sees no more than the SNI."""
        return self in (Protocol.TLS, Protocol.HTTPS)


_HTTP = frozenset({Protocol.HTTP, Protocol.HTTP2, Protocol.GRPC, Protocol.GRPC_WEB})
_BY_NAME = {each.value: each for each in Protocol if each is not Protocol.AUTO}
_KUBERNETES = {
    "kubernetes.io/h2c": Protocol.HTTP2,
    "kubernetes.io/ws": Protocol.HTTP,
    "kubernetes.io/wss": Protocol.HTTPS,
}
_SERVER_FIRST = frozenset({25, 53, 3306, 27017})

PROTOCOL_NAMES = tuple(_BY_NAME)
"""The protocols that a port can declare."""
