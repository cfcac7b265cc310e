"""The hosts of a Sidecar's egress listener: `namespace/host`.

The namespace is a name, `.` for the proxy's own, `*` for any, or begins with `~`: such hosts are
taken out of what the others bring in. The host may be a pattern such as `*.example.com`.
"""

from typing import NamedTuple

from istio_config.kinds.checks import is_dns_label, is_wildcard_host

ANY = "*"
OWN = "."
EXCLUDED = "~"


class EgressHost(NamedTuple):
    """One entry of a listener's `hosts`."""

    namespace: str
    """A name or `*`; of those that are taken out too."""
    host: str
    """A host or a pattern, in lower case."""
    is_excluded: bool = False

    @property
    def is_everything(self) -> bool:
        """Whether it brings in every host of every namespace."""
        return self == ("*", "*", False)


def parse_egress_host(text: str, namespace: str) -> EgressHost:
    """Take an entry without mistakes apart, for the proxies of a namespace."""
    place, _, host = text.partition("/")
    is_excluded = place.startswith(EXCLUDED)
    place = place.removeprefix(EXCLUDED) or ANY if is_excluded else place
    return EgressHost(namespace if place == OWN else place, host.lower(), is_excluded)


def egress_host_mistake(text: str) -> str | None:
    """Return what is wrong with an entry, or None."""
    place, slash, host = text.partition("/")
    if not slash:
        return f'"{text}" has no namespace; write ./{text} for the own one, or */{text} for any'
    place = place.removeprefix(EXCLUDED) or ANY if place.startswith(EXCLUDED) else place
    if place not in (ANY, OWN) and not is_dns_label(place):
        return f'"{place}" is not a namespace; write a name, "." for the own one, or "*" for any'
    if not is_wildcard_host(host):
        return f'"{host}" is not a host name; write it like reviews.example.com or *.example.com'
    return None
