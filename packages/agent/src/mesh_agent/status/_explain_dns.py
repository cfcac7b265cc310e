"""`GET /debug/dns?name=NAME&type=TYPE`: how the agent answers a DNS query, and by which rule."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from mesh_status_server import Request, Response

if TYPE_CHECKING:
    from mesh_dnsproxy import DnsServer, Explanation

_MAX_FIELDS = 8


async def explain_dns(dns: "DnsServer | None", request: Request) -> Response:
    """Answer from the lookup that answers the workload's own queries."""
    if dns is None:
        reason = "the agent answers no DNS queries; ISTIO_META_DNS_CAPTURE=true makes it do so\n"
        return Response.text(reason, HTTPStatus.NOT_FOUND)
    try:
        asked = parse_qs(request.query, max_num_fields=_MAX_FIELDS)
        (name,) = asked.get("name", ("",))
        (kind,) = asked.get("type", ("A",))
        if not name:
            raise ValueError("no name is given: add ?name=NAME, and &type=TYPE if not for A")
        found = await dns.explain(name, kind)
    except ValueError as error:
        return Response.text(f"{error}\n", HTTPStatus.BAD_REQUEST)
    return Response.json(as_json(found))


def as_json(found: "Explanation") -> Mapping[str, object]:
    """Return an explanation in the form that `mesh-agent dns` reads."""
    return {
        "name": found.name,
        "type": found.type,
        "rule": found.rule,
        "host": found.host,
        "registry": found.registry,
        "namespace": found.namespace,
        "wildcard": found.wildcard,
        "alias_of": found.alias_of,
        "origin": found.origin,
        "upstream": None if found.upstream is None else str(found.upstream),
        "upstreams": [str(each) for each in found.upstreams],
        "code": found.code,
        "answers": [
            {"name": each.name, "type": each.type, "ttl_s": each.ttl_s, "data": each.data}
            for each in found.answers
        ],
    }
