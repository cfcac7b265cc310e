"""Private key providers: accelerators that Envoy uses private keys with, not its own code.

The two that Istio knows, CryptoMB and QAT, are extensions of Envoy's contrib builds.
"""

from datetime import timedelta
from enum import StrEnum

import msgspec

from mesh_lifecycle import check_fields
from mesh_protowire import bytes_field, string_field, varint_field
from mesh_sds._errors import ConfigError

_PROVIDER_NAME, _TYPED_CONFIG, _FALLBACK = 1, 3, 4  # of PrivateKeyProvider
_METHOD_KEY, _METHOD_POLL_DELAY = 1, 2  # of both providers' configurations
_INLINE_BYTES = 2  # of DataSource
_SECONDS, _NANOS = 1, 2  # of Duration
_TYPE_URL, _VALUE = 1, 2  # of Any

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


class PrivateKeyProvider(msgspec.Struct, frozen=True, kw_only=True):
    """The provider that Envoy uses every private key with. Raises ConfigError.

    poll_delay: how long operations are gathered (CryptoMB) or awaited (QAT) before the next look;
    at least a millisecond. fallback: on a machine without the hardware Envoy does the work itself,
    instead of refusing the certificate. An Envoy without the extension refuses it in any case.
    """

    accelerator: KeyAccelerator
    poll_delay: timedelta
    fallback: bool = False

    def __post_init__(self) -> None:
        check_fields(self, error=ConfigError)
        if self.poll_delay < _SHORTEST_POLL_DELAY:
            raise ConfigError(
                f"poll delay of the {self.accelerator} private key provider is "
                f"{self.poll_delay.total_seconds():g} s, at least 0.001 s is right"
            )


def provider_message(provider: PrivateKeyProvider, private_key_pem: bytes) -> bytes:
    """Return Envoy's serialised `PrivateKeyProvider`.

    Both configurations have the key as field 1 and the delay as field 2.
    """
    seconds, microseconds = divmod(provider.poll_delay // timedelta(microseconds=1), 1_000_000)
    duration = b""
    if seconds:
        duration += varint_field(_SECONDS, seconds)
    if microseconds:
        duration += varint_field(_NANOS, microseconds * 1000)
    key = bytes_field(_INLINE_BYTES, private_key_pem)
    config = bytes_field(_METHOD_KEY, key) + bytes_field(_METHOD_POLL_DELAY, duration)
    packed = string_field(_TYPE_URL, _CONFIG_TYPES[provider.accelerator])
    packed += bytes_field(_VALUE, config)
    message = string_field(_PROVIDER_NAME, provider.accelerator.value)
    message += bytes_field(_TYPED_CONFIG, packed)
    return message + (varint_field(_FALLBACK, 1) if provider.fallback else b"")
