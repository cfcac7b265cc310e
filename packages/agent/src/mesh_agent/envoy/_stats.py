"""Which statistics Envoy keeps: by Istio's annotations, else by its proxy configuration."""

import json
import math
import sys
from collections.abc import Sequence
from itertools import pairwise

import envoy_supervisor
from istio_settings import Fields, PodInfo, ProxyConfig
from mesh_configfile import parse_duration

_ANNOTATION = "sidecar.istio.io/"
_ENVOYS_FLUSH_S = 5.0


def stats_settings(
    proxy: ProxyConfig, pod: PodInfo, *, addresses: Sequence[str], problems: list[str]
) -> envoy_supervisor.StatsConfig:
    """Return the settings of Envoy's statistics; names and precedence are Istio's.

    addresses: what `{pod_ip}` in a name stands for, each once.
    """
    matcher = Fields.top_level(proxy, "proxyStatsMatcher", problems)
    if matcher is not None:
        matcher.expect_only("inclusionPrefixes", "inclusionSuffixes", "inclusionRegexps")

    def inclusion(kind: str) -> tuple[str, ...]:
        names = _listed(pod, f"statsInclusion{kind}")
        if not names and matcher is not None:
            names = matcher.texts(f"inclusion{kind}")
        return tuple(_for_each_address(names, addresses))

    flush_s = _seconds(pod, "statsFlushInterval", problems)
    return envoy_supervisor.StatsConfig(
        inclusion_prefixes=inclusion("Prefixes"),
        inclusion_suffixes=inclusion("Suffixes"),
        inclusion_regexes=inclusion("Regexps"),
        extra_tags=(*_extra_tags(proxy, problems), *_listed(pod, "extraStatTags")),
        flush_interval_s=flush_s,
        eviction_interval_s=_eviction_s(pod, flush_s, problems),
        histogram_buckets=_histogram_buckets(pod, problems),
    )


def _listed(pod: PodInfo, name: str) -> tuple[str, ...]:
    text = pod.annotations.get(_ANNOTATION + name, "")
    return tuple(item for item in (part.strip() for part in text.split(",")) if item)


def _for_each_address(names: Sequence[str], addresses: Sequence[str]) -> list[str]:
    return [
        name.replace("{pod_ip}", address)
        for name in names
        for address in (addresses if "{pod_ip}" in name else ("",))
    ]


def _extra_tags(proxy: ProxyConfig, problems: list[str]) -> tuple[str, ...]:
    values = proxy.merged.get("extraStatTags")
    if values is None:
        return ()
    where = proxy.place("extraStatTags")
    if not isinstance(values, list) or not all(isinstance(tag, str) and tag for tag in values):
        problems.append(f"{where} is {values!r}, it must be a list of texts")
        return ()
    return tuple(str(tag) for tag in values)


def _seconds(pod: PodInfo, name: str, problems: list[str]) -> float | None:
    text = pod.annotations.get(_ANNOTATION + name, "")
    if not text:
        return None
    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError as error:
        problems.append(f"annotation {_ANNOTATION}{name}: {error}")
        return None
    # Envoy's own bounds for stats_flush_interval.
    if not 0.001 <= seconds <= 300:
        problems.append(f"annotation {_ANNOTATION}{name} is {text!r}, it must be from 1ms to 5m")
        return None
    return seconds


def _eviction_s(pod: PodInfo, flush_s: float | None, problems: list[str]) -> float | None:
    name = f"{_ANNOTATION}statsEvictionInterval"
    text = pod.annotations.get(name, "")
    if not text:
        return None
    unit_s = _ENVOYS_FLUSH_S if flush_s is None else flush_s
    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError as error:
        problems.append(f"annotation {name}: {error}")
        return None
    rounds = round(seconds / unit_s)
    if rounds < 1 or not math.isclose(rounds * unit_s, seconds):
        problems.append(
            f"annotation {name} is {text!r}, it must be a multiple of the flush interval of "
            f"{unit_s:g}s"
        )
        return None
    return seconds


def _histogram_buckets(pod: PodInfo, problems: list[str]) -> dict[str, tuple[float, ...]]:
    name = f"{_ANNOTATION}statsHistogramBuckets"
    text = pod.annotations.get(name, "")
    if not text:
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or not all(map(_is_buckets, values.values())):
        problems.append(
            f"annotation {name} is {text!r}, it must be a JSON object of names' beginnings and "
            'rising positive bounds, such as {"istio_request_duration": [1, 10, 100]}'
        )
        return {}
    return {prefix: tuple(map(float, bounds)) for prefix, bounds in values.items()}


def _is_buckets(bounds: object) -> bool:
    if not isinstance(bounds, list) or not bounds:
        return False
    if not all(
        isinstance(bound, int | float) and 0 < bound <= sys.float_info.max for bound in bounds
    ):
        return False
    return all(low < high for low, high in pairwise(bounds))
