"""Demands of Envoy on the parts of routes that no constraint of its API states.

Seen with Envoy 1.36 and 1.40.
"""

import re
from collections.abc import Mapping
from typing import Any as Unchecked

from istio_config.envoy_api._message_types import content_type, unpacked
from istio_config.envoy_api._upstream_checks import duration_s
from istio_config.envoy_api._value_checks import TypeCheck

_ROUTE = "envoy.config.route.v3"
_TEMPLATE = "envoy.extensions.path.{}.uri_template.v3.UriTemplate{}Config"
_MATCHING, _REWRITING = (
    _TEMPLATE.format("match", "Match"),
    _TEMPLATE.format("rewrite", "Rewrite"),
)
_MOST_WEIGHT = 2**32 - 1


_REWRITES = ("prefix_rewrite", "regex_rewrite", "path_rewrite_policy")
_VARIABLE = re.compile(r"\{([a-zA-Z][a-zA-Z0-9_]{0,15})(?:=(?:\*\*?|[a-zA-Z0-9._~%@:-]+))?\}")
_SEGMENT = re.compile(rf"\*\*?|{_VARIABLE.pattern}|[a-zA-Z0-9._~%!$&'()+,;:@=-]+")
_MOST_VARIABLES = 5


def _template(message: Unchecked) -> tuple[str, str] | None:
    """Accept only templates that Envoy is sure to accept: in RBAC it crashes at others."""
    text: str = message.path_template
    segments = text.removeprefix("/").removesuffix("/").split("/")
    known = segments == [""] or all(map(_SEGMENT.fullmatch, segments))
    if not text.startswith("/") or text == "//" or not known:
        return "path_template", f'is none that Envoy is sure to take: "{text[:80]}"'
    names = _VARIABLE.findall(text)
    if len(names) > _MOST_VARIABLES or len(set(names)) < len(names):
        return "path_template", f"has over {_MOST_VARIABLES} variables, or one of them twice"
    # A variable without a pattern is for one segment, as * is.
    globs = [each for each in segments if "*" in each or ("{" in each and "=" not in each)]
    if any("**" in each for each in globs[:-1]):
        return "path_template", "has a * or a variable after its **"
    return None


def _weighted(message: Unchecked) -> tuple[str, str] | None:
    weights = [each.weight.value for each in message.clusters]
    if weights and not sum(weights):
        return "clusters", "have weights that sum to 0"
    if sum(weights) > _MOST_WEIGHT:
        return "clusters", f"have weights that sum to more than {_MOST_WEIGHT}"
    return None


def _cluster_weight(message: Unchecked) -> tuple[str, str] | None:
    if bool(message.name) == bool(message.cluster_header):
        return "name", "or cluster_header must be given, and not both"
    return None


def _mirror(message: Unchecked) -> tuple[str, str] | None:
    if bool(message.cluster) == bool(message.cluster_header):
        return "cluster", "or cluster_header must be given, and not both"
    return None


def _route_action(message: Unchecked) -> tuple[str, str] | None:
    rewrites = [name for name in ("regex_rewrite", "path_rewrite_policy") if message.HasField(name)]
    if message.prefix_rewrite:
        rewrites.append("prefix_rewrite")
    if len(rewrites) > 1:
        return rewrites[0], f"excludes {rewrites[1]}"
    return None


def _upgrade(message: Unchecked) -> tuple[str, str] | None:
    # CONNECT-UDP is one too: Envoy compares without regard to case.
    connects = message.upgrade_type.lower() in ("connect", "connect-udp")
    if message.HasField("connect_config") and not connects:
        return "connect_config", "is for the upgrade_type CONNECT alone"
    return None


def _upgrades_of_route(message: Unchecked) -> tuple[str, str] | None:
    names = [each.upgrade_type.lower() for each in message.upgrade_configs]
    twice = next((each for each in names if names.count(each) > 1), None)
    return None if twice is None else ("upgrade_configs", f'has "{twice}" twice')


def _back_off(message: Unchecked) -> tuple[str, str] | None:
    base, most = duration_s(message.base_interval), duration_s(message.max_interval)
    if message.HasField("max_interval") and most < base:
        return "max_interval", "must not be less than base_interval"
    return None


def _internal_redirect(message: Unchecked) -> tuple[str, str] | None:
    for each in message.response_headers_to_copy:
        if each.startswith(":") or each.lower() == "host":
            return "response_headers_to_copy", f"can't have {each}"
    return None


def _route(message: Unchecked) -> tuple[str, str] | None:
    matching = content_type(message.match.path_match_policy.typed_config) == _MATCHING
    action = message.route
    rewriting = content_type(action.path_rewrite_policy.typed_config) == _REWRITING
    if rewriting and not matching:
        return "route", "rewrites by a template, and match.path_match_policy is none"
    if rewriting and matching:
        match, rewrite = (
            unpacked(message.match.path_match_policy.typed_config),
            unpacked(action.path_rewrite_policy.typed_config),
        )
        known = _VARIABLE.findall(str(getattr(match, "path_template", "")))
        used = _VARIABLE.findall(str(getattr(rewrite, "path_template_rewrite", "")))
        if not set(used) <= set(known):
            return "route", "rewrites by variables that match.path_match_policy has not"
    if message.match.HasField("path_match_policy") and action.prefix_rewrite:
        return "route", "has prefix_rewrite, which match.path_match_policy excludes"
    return None


def _virtual_host(message: Unchecked) -> tuple[str, str] | None:
    if message.HasField("matcher") and message.routes:
        return "matcher", "excludes routes"
    return None


def _virtual_cluster(message: Unchecked) -> tuple[str, str] | None:
    return None if message.headers else ("headers", "is missing")


def _filter_settings(message: Unchecked) -> tuple[str, str] | None:
    if message.HasField("config") or message.disabled:
        return None
    return "config", "is missing, and the filter is not disabled"


def _per_route(message: Unchecked) -> tuple[str, str] | None:
    for name, packed in message.typed_per_filter_config.items():
        found = content_type(packed)
        if found in _NOT_PER_ROUTE or found.startswith(_OTHER_FILTERS):
            return "typed_per_filter_config", f"[{name}] has a {found}, which is none for routes"
    return None


_NOT_PER_ROUTE = frozenset({"envoy.extensions.filters.http.router.v3.Router"})
_OTHER_FILTERS = ("envoy.extensions.filters.network.", "envoy.extensions.filters.listener.")

CHECKS: Mapping[str, tuple[TypeCheck, ...]] = {
    _MATCHING: (_template,),
    f"{_ROUTE}.FilterConfig": (_filter_settings,),
    f"{_ROUTE}.InternalRedirectPolicy": (_internal_redirect,),
    f"{_ROUTE}.RetryPolicy.RetryBackOff": (_back_off,),
    f"{_ROUTE}.Route": (_route, _per_route),
    f"{_ROUTE}.RouteAction": (_route_action, _upgrades_of_route),
    f"{_ROUTE}.RouteAction.RequestMirrorPolicy": (_mirror,),
    f"{_ROUTE}.RouteAction.UpgradeConfig": (_upgrade,),
    f"{_ROUTE}.RouteConfiguration": (_per_route,),
    f"{_ROUTE}.VirtualCluster": (_virtual_cluster,),
    f"{_ROUTE}.VirtualHost": (_virtual_host, _per_route),
    f"{_ROUTE}.WeightedCluster": (_weighted,),
    f"{_ROUTE}.WeightedCluster.ClusterWeight": (_cluster_weight, _per_route),
}
"""By the names of types."""
