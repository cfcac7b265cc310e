"""The configuration that Envoy refuses now, in words: what the relay's NACKs in force say."""

from collections.abc import Iterator, Mapping

import xds_proxy
from mesh_protos import type_urls

_NAMES = {
    type_urls.CLUSTER: ("clusters", "CDS"),
    type_urls.ENDPOINT: ("endpoints", "EDS"),
    type_urls.LISTENER: ("listeners", "LDS"),
    type_urls.ROUTE: ("routes", "RDS"),
    type_urls.SECRET: ("secrets", "SDS"),
    type_urls.EXTENSION_CONFIG: ("extension configuration", "ECDS"),
    type_urls.NAME_TABLE: ("the name table", "NDS"),
    type_urls.PROXY_CONFIG: ("the proxy config", "PCDS"),
}
_LONGEST = 500
_LONGEST_NAME = 100
_MOST_NAMES = 3


def name_of_type(type_url: str) -> str:
    """Return what a person calls the resources of a type, with the discovery service's name."""
    known = _NAMES.get(type_url)
    return f"{known[0]} ({known[1]})" if known is not None else type_url.rpartition("/")[2]


def short_name_of_type(type_url: str) -> str | None:
    """Return what a person calls the resources of a type, for a table; None if that is not known.

    As in `clusters` and `name table`.
    """
    known = _NAMES.get(type_url)
    return known[0].removeprefix("the ") if known is not None else None


def refusals(types: Mapping[str, xds_proxy.TypeStatus]) -> Iterator[tuple[str, str]]:
    """Yield each type whose newest version is refused, and what of it in the refuser's words.

    A version that was refused once and followed by one that is accepted is not among them.
    """
    for type_url, known in types.items():
        if known.nack is not None:
            said = " ".join(known.nack.split())[:_LONGEST] or "no reason was given"
            version = " ".join(known.version.split())[:64]
            yield type_url, f"{name_of_type(type_url)}, version {version!r}: {said}{_which(known)}"


def _which(known: xds_proxy.TypeStatus) -> str:
    """Return which resources are refused, where Envoy's words tell, and since when."""
    if not known.refused:
        return ""
    since = min(each.since for each in known.refused).isoformat(timespec="seconds")
    names = [" ".join(each.name.split())[:_LONGEST_NAME] for each in known.refused if each.name]
    shown = ", ".join(names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f" ({shown}{more}{', ' if shown else ''}since {since})"


def describe_refusals(types: Mapping[str, xds_proxy.TypeStatus]) -> str | None:
    """Return what is refused now while the last good configuration serves; None if nothing is."""
    found = tuple(sentence for _, sentence in refusals(types))
    if not found:
        return None
    return f"refused, the last good one is in use: {'; '.join(found)}"
