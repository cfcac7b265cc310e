"""Where modules are kept, and within which limits they are fetched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mesh_address_guard import IpNetwork
from mesh_lifecycle import check_fields
from wasm_modules._errors import ConfigError

ANY_REGISTRY = "*"
MAX_MODULE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmConfig:
    """The cache and the limits.

    cache_root: directory of the modules; created with mode 0700 when the first one is fetched.
    expiry_s: a module that was not used for so long is removed. One that a filter has is in use.
    purge_interval_s: between two looks for such modules.
    request_timeout_s: of one HTTP request, its body included.
    max_retries: further attempts after a connection failed, or after a status of 500 and more but
        501, 505 and 511.
    max_module_bytes: of a module, of its archive, and of all that comes out of the archive.
    blocked_networks: addresses that are never connected to, besides those that
        `mesh_address_guard` blocks always: link-local ones, and metadata services in clouds.
    insecure_registries: hosts, `host:port` or just the host, whose certificate is not verified, and
        that may be reached without TLS; `*` is all hosts.
    default_timeout_s: how long a filter waits for its module if its configuration does not say.
    """

    cache_root: Path
    expiry_s: float = 24 * 3600.0
    purge_interval_s: float = 3600.0
    request_timeout_s: float = 15.0
    max_retries: int = 5
    max_module_bytes: int = MAX_MODULE_BYTES
    blocked_networks: tuple[IpNetwork, ...] = ()
    insecure_registries: frozenset[str] = frozenset()
    default_timeout_s: float = 5.0

    def __post_init__(self) -> None:
        check_fields(self, error=ConfigError)

    def check(self) -> None:
        """Raise ConfigError for a value that can never work."""
        for name in ("expiry_s", "purge_interval_s", "request_timeout_s", "default_timeout_s"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be greater than 0, not {getattr(self, name)}")
        if self.max_retries < 0:
            raise ConfigError(f"max_retries must be at least 0, not {self.max_retries}")
        if self.max_module_bytes < 8:
            raise ConfigError(f"max_module_bytes must be at least 8, not {self.max_module_bytes}")
