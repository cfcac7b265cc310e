"""Selects the statistics that Envoy keeps, and the parts of their names that become tags.

A mesh proxy has some hundred statistics a cluster; keeping all of them costs more memory than the
proxy itself, so a list says which are kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from envoy_supervisor._errors import BootstrapError
from envoy_supervisor._json import JSON, clean_text
from mesh_lifecycle import check_fields

DEFAULT_FLUSH_S = 5.0

REQUIRED_PREFIXES = ("cluster_manager", "listener_manager", "server", "cluster.xds-grpc", "wasm")
REQUIRED_SUFFIXES = ("rbac.allowed", "rbac.denied", "shadow_allowed", "shadow_denied")
# Shutting down asks how many connections are open.
DRAIN_SUFFIX = "downstream_cx_active"
REQUIRED_REGEXES = (r"vhost\..*\.route\..*",)

_TAGS: tuple[tuple[str, str], ...] = (
    # Envoy cuts the first group out of the name and takes the second as the tag's value. Names
    # with dots in them end in a semicolon, put there by `alt_stat_name` and by stat prefixes.
    # One expression a tag: where two match the same name Envoy warns at every statistic.
    ("cluster_name", r"^cluster\.(([^;]+);\.)"),
    ("tcp_prefix", r"^tcp\.((.+)\.)\w+$"),
    ("response_code", r"(_rq_(\d{3}))$"),
    ("response_code_class", r"_rq(_(\dxx))$"),
    ("http_conn_manager_listener_prefix", r"^listener(?:\.[^;]*?)?\.http\.(([^;.]+);?\.)"),
    ("http_conn_manager_prefix", r"^http\.(([^;]+);\.)"),
    ("listener_address", r"^listener\.((\[?[0-9a-fA-F_.:]+\]?_\d+|[^.]*\[[^\]]*\]_\d+)\.)"),
    ("mongo_prefix", r"^mongo\.((.+?)\.)(?:collection|cmd|cx_|op_|delays_|decoding_)"),
    ("thread_name", r"^server\.((.+)\.)watchdog"),
    ("cache", r"(cache\.(.+?)\.)"),
    ("component", r"(component\.(.+?)\.)"),
    ("wasm_filter", r"(wasm_filter\.(.+?)\.)"),
    ("tag", r"(tag\.(.+?);\.)"),
    ("authz_enforce_result", r"rbac(\.(allowed|denied))"),
    ("authz_dry_run_action", r"(\.istio_dry_run_(allow|deny)_)"),
    ("authz_dry_run_result", r"(\.shadow_(allowed|denied))"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsConfig:
    """The statistics to keep beside the ones always kept, and tags for them.

    keep_all: keep every statistic; for debugging, costs memory with each cluster.
    inclusion_prefixes, inclusion_suffixes, inclusion_regexes: names to keep as well.
    extra_tags: in names holding `TAG=.=VALUE;.` this becomes the tag TAG.
    flush_interval_s: how often statistics go to sinks; None is Envoy's own 5 s.
    eviction_interval_s: after how long without use a statistic is forgotten; a multiple of
        flush_interval_s (or of 5). None: never.
    histogram_buckets: upper bounds of buckets, by the prefix of a histogram's name.
    """

    keep_all: bool = False
    inclusion_prefixes: tuple[str, ...] = ()
    inclusion_suffixes: tuple[str, ...] = ()
    inclusion_regexes: tuple[str, ...] = ()
    extra_tags: tuple[str, ...] = ()
    flush_interval_s: float | None = None
    eviction_interval_s: float | None = None
    histogram_buckets: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self, error=BootstrapError)


def stats_config(config: StatsConfig) -> dict[str, JSON]:
    """Return `stats_config` of the bootstrap."""
    extra = sorted({clean_text(tag) for tag in config.extra_tags})
    tags = [*_TAGS, *((tag, rf"({re.escape(tag)}=\.=(.*?);\.)") for tag in extra)]
    result: dict[str, JSON] = {
        "use_all_default_tags": False,
        "stats_tags": [{"tag_name": name, "regex": regex} for name, regex in tags],
    }
    if not config.keep_all:
        result["stats_matcher"] = {"inclusion_list": {"patterns": _patterns(config)}}
    if config.histogram_buckets:
        result["histogram_bucket_settings"] = [
            {"match": {"prefix": clean_text(prefix)}, "buckets": list(buckets)}
            for prefix, buckets in config.histogram_buckets.items()
        ]
    return result


def stats_intervals(config: StatsConfig) -> dict[str, JSON]:
    """Return `stats_flush_interval` and `stats_eviction_interval`, where given."""
    flush_s, eviction_s = config.flush_interval_s, config.eviction_interval_s
    intervals: dict[str, JSON] = {}
    if flush_s is not None:
        intervals["stats_flush_interval"] = f"{flush_s:g}s"
    if eviction_s is not None:
        unit_s = DEFAULT_FLUSH_S if flush_s is None else flush_s
        rounds = round(eviction_s / unit_s)
        if rounds < 1 or not math.isclose(rounds * unit_s, eviction_s):
            raise BootstrapError(
                f"statistics' eviction interval of {eviction_s:g} s is not a multiple of their "
                f"flush interval of {unit_s:g} s"
            )
        intervals["stats_eviction_interval"] = f"{eviction_s:g}s"
    return intervals


def _patterns(config: StatsConfig) -> list[JSON]:
    prefixes = ("reporter=", *config.inclusion_prefixes, *REQUIRED_PREFIXES)
    suffixes = (*config.inclusion_suffixes, *REQUIRED_SUFFIXES, DRAIN_SUFFIX)
    regexes = (*config.inclusion_regexes, *REQUIRED_REGEXES)
    return [
        *({"prefix": clean_text(prefix)} for prefix in dict.fromkeys(prefixes)),
        *({"suffix": clean_text(suffix)} for suffix in dict.fromkeys(suffixes)),
        *({"safe_regex": {"regex": clean_text(regex)}} for regex in dict.fromkeys(regexes)),
        {"prefix": "component"},
        {"prefix": "istio"},
    ]
