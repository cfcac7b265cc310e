"""Connections, streams and their TLS, by flags and variables of Istio's control plane."""

import ssl
from typing import NamedTuple, Protocol

from mesh_discovery.settings._reader import Reader
from xds_server import ServerConfig

_DEFAULT = ServerConfig()
_FOR_EVER = "2562047h47m16.854775807s"
"""Go's longest duration, by which Istio's flag says that there is no limit."""

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""OpenSSL's names of the suites that IANA names so: those with forward secrecy and AEAD."""
_SUITES_OF_1_3 = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Which of these is used is for the two ends to agree, as in Go."""


class ServingTls(NamedTuple):
    """The TLS of the secure port. ciphers: of TLS 1.2, in OpenSSL's words."""

    oldest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    # What Python adds to these for TLS 1.2, CBC with SHA-2, no client of ours needs.
    ciphers: str = "ECDHE+AESGCM:ECDHE+CHACHA20"


class StreamSettings(NamedTuple):
    """Connections and streams of xDS, by the names of `ServerConfig`."""

    concurrent_pushes: int = _DEFAULT.concurrent_pushes
    streams_per_second: float | None = _DEFAULT.streams_per_second
    send_timeout_s: float | None = _DEFAULT.send_timeout_s
    max_streams: int = _DEFAULT.max_streams
    max_request_bytes: int = _DEFAULT.max_request_bytes
    keepalive_interval_s: float = _DEFAULT.keepalive_interval_s
    keepalive_timeout_s: float = _DEFAULT.keepalive_timeout_s
    max_connection_age_s: float | None = _DEFAULT.max_connection_age_s


SERVING_TLS = ServingTls()
STREAM_SETTINGS = StreamSettings()


class ConnectionFlags(Protocol):
    """The flags that are read here, as texts; empty if they are not given."""

    @property
    def keepalive_interval(self) -> str: ...
    @property
    def keepalive_timeout(self) -> str: ...
    @property
    def max_connection_age(self) -> str: ...
    @property
    def tls_min_version(self) -> str: ...
    @property
    def tls_cipher_suites(self) -> tuple[str, ...]: ...


def read_stream_settings(flags: ConnectionFlags, reader: Reader) -> StreamSettings:
    """Read them of flags and environment; the reader gathers what is wrong."""
    age = flags.max_connection_age
    default = STREAM_SETTINGS
    return StreamSettings(
        concurrent_pushes=reader.count("PILOT_PUSH_THROTTLE", 0, least=0, most=100_000)
        or default.concurrent_pushes,
        streams_per_second=reader.rate("PILOT_MAX_REQUESTS_PER_SECOND"),
        send_timeout_s=reader.duration("PILOT_XDS_SEND_TIMEOUT", 60.0, zero=True) or None,
        max_streams=reader.count("ISTIO_GPRC_MAXSTREAMS", default.max_streams, most=2**31 - 1),
        max_request_bytes=reader.count(
            "ISTIO_GPRC_MAXRECVMSGSIZE", default.max_request_bytes, least=1024, most=256 << 20
        ),
        keepalive_interval_s=_of_flag_or_variable(
            reader,
            ("--keepaliveInterval", flags.keepalive_interval),
            "GRPC_KEEPALIVE_INTERVAL",
            default.keepalive_interval_s,
        ),
        keepalive_timeout_s=_of_flag_or_variable(
            reader,
            ("--keepaliveTimeout", flags.keepalive_timeout),
            "GRPC_KEEPALIVE_TIMEOUT",
            default.keepalive_timeout_s,
        ),
        max_connection_age_s=None
        if age in ("", _FOR_EVER)
        else reader.parsed_duration("--keepaliveMaxServerConnectionAge", age, 1800.0),
    )


def read_serving_tls(flags: ConnectionFlags, reader: Reader) -> ServingTls:
    """Read the TLS of the secure port of flags; the reader gathers what is wrong."""
    default = SERVING_TLS
    oldest = _VERSIONS.get(flags.tls_min_version or "1.2")
    if oldest is None:
        reader.problems.append(
            f"--tls-min-version is {flags.tls_min_version!r}: expected {' or '.join(_VERSIONS)}"
        )
        return default
    found = []
    for name in filter(None, (each.strip() for each in flags.tls_cipher_suites)):
        if (suite := _SUITES.get(name)) is not None:
            found.append(suite)
        elif name not in _SUITES_OF_1_3:
            reader.problems.append(
                f"--tls-cipher-suites: {name!r} is not served: expected some of "
                f"{', '.join(_SUITES)}"
            )
    return ServingTls(oldest, ":".join(found) or default.ciphers)


def _of_flag_or_variable(
    reader: Reader, flag: tuple[str, str], variable: str, default: float
) -> float:
    name, text = flag
    if text:
        return reader.parsed_duration(name, text, default)
    return reader.duration(variable, default)
