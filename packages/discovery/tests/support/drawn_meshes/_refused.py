"""Finds what Envoy refuses though no rule of a field says so.

Source: envoy 1.36 and 1.40, by experiment.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

_RBAC = "envoy.filters.http.rbac"
_REDIRECT_CODES = {
    "MOVED_PERMANENTLY",
    "FOUND",
    "SEE_OTHER",
    "TEMPORARY_REDIRECT",
    "PERMANENT_REDIRECT",
}


def refused(kind: str, resource: Any) -> Iterator[str]:
    """Yield why Envoy would refuse a resource, as plain data."""
    if kind == "route":
        yield from _refused_routes(resource)
    elif kind == "listener":
        yield from _refused_listener(resource)


def _refused_routes(table: Any) -> Iterator[str]:
    seen: dict[str, str] = {}
    for host in table.get("virtual_hosts", ()):
        for domain in host["domains"]:
            owner = seen.setdefault(domain.lower(), host["name"])
            if owner != host["name"] or host["domains"].count(domain) > 1:
                yield f"{table['name']}: domain {domain} of {host['name']} is {owner}'s too"
        for index, route in enumerate(host.get("routes", ())):
            place = f"{table['name']}/{host['name']}[{index}]"
            yield from _refused_route(route, place)


def _refused_route(route: Any, place: str) -> Iterator[str]:
    actions = {"route", "redirect", "direct_response", "non_forwarding_action"} & route.keys()
    if len(actions) != 1:
        yield f"{place}: has {len(actions)} actions"
    weighted = route.get("route", {}).get("weighted_clusters")
    if weighted is not None and not sum(each.get("weight", 0) for each in weighted["clusters"]):
        yield f"{place}: weights sum to 0"
    code = route.get("redirect", {}).get("response_code")
    if code is not None and code not in _REDIRECT_CODES:
        yield f"{place}: redirect code {code}"


def _refused_listener(listener: Any) -> Iterator[str]:
    name = listener["name"]
    yield from _duplicates(
        (
            str(match)
            for chain in listener.get("filter_chains", ())
            for match in _matches(chain.get("filter_chain_match", {}))
        ),
        f"{name}: two filter chains match",
    )
    for chain in (*listener.get("filter_chains", ()), listener.get("default_filter_chain", {})):
        for each in chain.get("filters", ()):
            filters = [one["name"] for one in each.get("typed_config", {}).get("http_filters", ())]
            if filters and filters[-1] != "envoy.filters.http.router":
                yield f"{name}: the last HTTP filter is {filters[-1]}"
            once = (each for each in filters if each != _RBAC)  # there is one for each action
            yield from _duplicates(once, f"{name}: an HTTP filter is there twice")


def _matches(match: Any) -> Iterator[Any]:
    """Take a match apart: each of its values stands for itself."""
    lists = {key: value for key, value in match.items() if isinstance(value, list)}
    for chosen in product(*lists.values()):
        yield sorted({**match, **dict(zip(lists, chosen, strict=True))}.items(), key=str)


def _duplicates(values: Iterable[str], label: str) -> Iterator[str]:
    seen: set[str] = set()
    for each in values:
        if each in seen:
            yield f"{label} {each}"
        seen.add(each)
