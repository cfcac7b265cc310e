"""A token and the key set that it is checked with, for trying a control plane by hand.

On Kubernetes both come from the cluster, and `mesh-local` makes them for its meshes.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from mesh_ca import TokenIssuer
from mesh_command_line import span

KEY_SET = "jwks.json"
TOKEN = "token"  # noqa: S105  (a file name)


def write_token(
    directory: Path,
    *,
    namespace: str,
    service_account: str,
    audience: str,
    issuer: str,
    lifetime: timedelta,
    file: Path | None = None,
) -> Iterator[str]:
    """Write a token and its key set, and yield a sentence about each.

    The key that signs is generated in `directory` at first use and stays, so that a control plane
    that runs takes tokens issued later. Raises `CaError`.
    """
    tokens = TokenIssuer(directory, issuer)
    key_set, file = directory / KEY_SET, file or directory / TOKEN
    tokens.write_token(file, namespace, service_account, audience, lifetime)
    tokens.write_jwks(key_set)
    time = span(lifetime.total_seconds())
    yield f"{file} is a token of the service account {namespace}/{service_account} for {time}"
    further = f" --jwt-audience {audience}" if audience != "istio-ca" else ""
    yield f"mesh-discovery discovery --jwks-file {key_set} --jwt-issuer {issuer}{further} takes it"
