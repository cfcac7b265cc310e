"""The service accounts that a client has proved to be."""

from collections.abc import Iterable

from mesh_identity import InvalidSpiffeId, SpiffeId


def accounts_in(namespace: str, identities: Iterable[str]) -> frozenset[str]:
    """Return the service accounts of a namespace among proven identities."""
    found = set()
    for each in identities:
        try:
            shown = SpiffeId.parse(each)
        except InvalidSpiffeId:
            continue
        if shown.namespace == namespace and shown.service_account:
            found.add(shown.service_account)
    return frozenset(found)
