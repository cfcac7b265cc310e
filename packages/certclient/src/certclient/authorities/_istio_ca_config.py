"""How an Istio certificate authority is reached."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from certclient._errors import InvalidConfig
from mesh_identity import SYSTEM, SystemRoots, system_root_files
from mesh_lifecycle import check_fields

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):[0-9]{1,5}")
_HEADER_NAME = re.compile(r"[a-z0-9_.-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class IstioCaConfig:
    """How to reach an Istio certificate authority, and the credentials to show it.

    address: "host:port".
    root_certificate: file of the roots that the server is checked against, SYSTEM for the
        machine's, None for plaintext: the token then travels in the clear.
    server_name: the name in the server's certificate; None for the host of `address`.
    server_name_setting: the setting that users change `server_name` by, for the error of a name
        mismatch.
    token_path: file of a bearer token; if the file is missing the call goes without one.
    client_certificate_path, client_key_path: shown to the server when both are there and valid.
    cluster_id: sent as ClusterID when not empty.
    headers: further call metadata; names are sent in lower case, as HTTP/2 has them.
    cert_signer: asks for a signer by name; empty for the authority's own.
    timeout_s: the longest that one try may take.
    """

    address: str
    root_certificate: Path | SystemRoots | None
    server_name: str | None = None
    token_path: Path | None = None
    client_certificate_path: Path | None = None
    client_key_path: Path | None = None
    cluster_id: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cert_signer: str = ""
    timeout_s: float = 10.0
    server_name_setting: str = "server_name"

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that each try reads: for `keep_fresh(depends_on=)`."""
        roots = self.root_certificate
        named = (
            *(system_root_files() if roots is SYSTEM else (roots,)),
            self.token_path,
            self.client_certificate_path,
            self.client_key_path,
        )
        return tuple(each for each in named if each is not None)

    def __post_init__(self) -> None:
        check_fields(self, error=InvalidConfig)
        if not _ADDRESS.fullmatch(self.address):
            raise InvalidConfig(f"address {self.address!r} must be HOST:PORT; IPv6 in brackets")
        if self.timeout_s <= 0:
            raise InvalidConfig(f"timeout_s must be above 0, got {self.timeout_s}")
        for name, value in self.headers:
            if not _HEADER_NAME.fullmatch(name.lower()) or name.lower().endswith("-bin"):
                raise InvalidConfig(
                    f"header name {name!r} must be of letters, digits, . _ - and not end in -bin"
                )
            if not _HEADER_VALUE.fullmatch(value):
                raise InvalidConfig(f"the value of header {name!r} must be printable ASCII")
