"""Whether names outside the mesh can be resolved, or lead back to the agent."""

from collections.abc import Iterator

from mesh_dnsproxy import Upstream, is_local, parse_resolv_conf, without_ourselves
from mesh_doctor._config import DnsPlace, DoctorConfig
from mesh_doctor._finding import Cause, Finding, ok, problem, skipped, warning
from mesh_doctor._observed import Observed, entry

CHECK = "DNS"
_DEFAULT = Upstream("127.0.0.1")
"""The server that a C library asks when resolv.conf names none (resolv.conf(5))."""
_FIX = (
    "keep the resolvers that the machine had before in /var/lib/istio/resolv.conf, which the agent "
    "asks on port 53 as root, or let DNS_PROXY_ADDR be another address than resolv.conf names"
)


def dns(config: DoctorConfig, seen: Observed) -> Iterator[Finding]:
    """Look at the resolvers that the agent asks."""
    place = config.dns
    if place is None:
        yield skipped(
            CHECK, "the agent answers no DNS queries (ISTIO_META_DNS_CAPTURE is not true)"
        )
        return
    returned = entry(seen.agent.document, "names").get("own_queries")
    if isinstance(returned, int) and returned > 0:
        yield problem(
            CHECK,
            Cause.DNS_LOOP,
            f"a resolver that the agent asks sends its questions back to the agent ({returned} so "
            "far): names outside the mesh are answered with an error",
            f"look where the resolvers in {place.resolv_conf} send their questions; {_FIX}",
        )
        return
    if seen.resolv_conf is None:
        yield warning(
            CHECK,
            Cause.NO_RESOLVER,
            f"{seen.resolv_conf_problem}: names outside the mesh can't be resolved",
            f"write a line such as `nameserver 192.0.2.1` into {place.resolv_conf}",
        )
        return
    yield _by_file(place, seen.resolv_conf)


def _by_file(place: DnsPlace, text: str) -> Finding:
    named = parse_resolv_conf(text).nameservers or (_DEFAULT,)
    others = without_ourselves(named, _listening(place), is_local=is_local)
    shown = ", ".join(map(str, named))
    if not others:
        return problem(
            CHECK,
            Cause.DNS_LOOP,
            f"{place.resolv_conf} names no resolver but the agent itself ({shown}): names outside "
            "the mesh are answered with an error",
            _FIX,
        )
    asked = ", ".join(map(str, others))
    return ok(CHECK, f"names outside the mesh are asked of {asked} ({place.resolv_conf})")


def _listening(place: DnsPlace) -> tuple[tuple[str, int], ...]:
    return tuple(
        (host, port)
        for name, port in place.listens
        for host in (("127.0.0.1", "::1") if name == "localhost" else (name,))
    )
