"""Private key providers: accelerators that Envoy uses private keys with, not its own code.

The two that Istio knows, CryptoMB and QAT, are extensions of Envoy's contrib builds.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from mesh_sds._errors import ConfigError

if TYPE_CHECKING:
    from envoy.extensions.transport_sockets.tls.v3 import common_pb2

_PACKAGE = "type.googleapis.com/envoy.extensions.private_key_providers."
_SHORTEST_POLL_DELAY = timedelta(milliseconds=1)


class KeyAccelerator(StrEnum):
    """The providers, by Envoy's names."""

    CRYPTOMB = "cryptomb"
    QAT = "qat"


_CONFIG_TYPES = {
    KeyAccelerator.CRYPTOMB: _PACKAGE + "cryptomb.v3alpha.CryptoMbPrivateKeyMethodConfig",
    KeyAccelerator.QAT: _PACKAGE + "qat.v3alpha.QatPrivateKeyMethodConfig",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateKeyProvider:
    """The provider that Envoy uses every private key with. Raises ConfigError.

    poll_delay: how long operations are gathered (CryptoMB) or awaited (QAT) before the next look;
    at least a millisecond. fallback: on a machine without the hardware Envoy does the work itself,
    instead of refusing the certificate. An Envoy without the extension refuses it in any case.
    """

    accelerator: KeyAccelerator
    poll_delay: timedelta
    fallback: bool = False

    def __post_init__(self) -> None:
        if self.poll_delay < _SHORTEST_POLL_DELAY:
            raise ConfigError(
                f"poll delay of the {self.accelerator} private key provider is "
                f"{self.poll_delay.total_seconds():g} s, at least 0.001 s is right"
            )


def write_provider(
    message: "common_pb2.PrivateKeyProvider", provider: PrivateKeyProvider, private_key_pem: bytes
) -> None:
    """Fill Envoy's `PrivateKeyProvider` message."""
    message.provider_name = provider.accelerator.value
    message.fallback = provider.fallback
    message.typed_config.type_url = _CONFIG_TYPES[provider.accelerator]
    message.typed_config.value = _method_config(provider.poll_delay, private_key_pem)


def _method_config(poll_delay: timedelta, private_key_pem: bytes) -> bytes:
    """Serialise either config: both have the key as field 1 and the delay as field 2.

    Written by hand: xds-protos does not have these types of Envoy's contrib builds.
    """
    from envoy.config.core.v3 import base_pb2
    from google.protobuf.duration_pb2 import Duration

    key = base_pb2.DataSource(inline_bytes=private_key_pem)
    delay = Duration()
    delay.FromTimedelta(poll_delay)
    return _field(1, key.SerializeToString()) + _field(2, delay.SerializeToString())


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
