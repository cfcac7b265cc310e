"""The files of roots and revocation lists, besides those that come with the certificate."""

from dataclasses import dataclass
from pathlib import Path

from certclient._errors import InvalidConfig
from certclient.files._secret_names import revocation_name, root_name
from mesh_identity import checked_trust_domain
from mesh_lifecycle import check_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustConfig:
    """Files of further roots and revocation lists, read again when they change; None for none.

    anchors_path: further roots of our own trust domain, PEM, and of no other.
    crl_path: revocation lists, PEM. Once there are any, a peer whose issuer has no list among them
        is refused.
    federated: other trust domains and the file of each one's roots, PEM, which verify ids of that
        trust domain only. Peers are accepted only as `trust_domains` of the TLS contexts says.
    """

    anchors_path: Path | None = None
    crl_path: Path | None = None
    federated: tuple[tuple[str, Path], ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, error=InvalidConfig)
        for name, path in self.federated:
            checked_trust_domain(name)
            if not isinstance(path, Path):
                raise TypeError(f"federated has {path!r} for {name}; it should be a Path")

    def secret_names(self) -> tuple[str, ...]:
        """Return the names under which `FileSecrets` has the content of the files."""
        roots = [path for path in (self.anchors_path,) if path is not None]
        roots += [path for _, path in self.federated]
        lists = (self.crl_path,) if self.crl_path is not None else ()
        return (*map(root_name, roots), *map(revocation_name, lists))
