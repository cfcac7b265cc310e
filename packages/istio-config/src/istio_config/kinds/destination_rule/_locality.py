"""Which localities a client prefers; mesh config has the same settings for all services.

A locality is spelled `region/zone/subzone`; parts may be missing, and the last may be `*`.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.fields import SpecFields
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_Weight: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class Distribute(SpecFields, frozen=True):
    """Where traffic from one locality goes: localities, with their shares in percent."""

    from_: str = msgspec.field(name="from", default="")
    to: dict[str, _Weight] = msgspec.field(default_factory=dict)


class Failover(SpecFields, frozen=True):
    """The region that takes over from another."""

    from_: str = msgspec.field(name="from", default="")
    to: str = ""


class LocalityLbSetting(SpecFields, frozen=True):
    """Shares of localities, or which of them take over from each other."""

    distribute: tuple[Distribute, ...] = ()
    failover: tuple[Failover, ...] = ()
    enabled: bool | None = None
    failover_priority: tuple[str, ...] = ()


class ZoneAwareLbSetting(SpecFields, frozen=True):
    """Endpoints of the client's own zone first, and how many there must be."""

    enabled: bool | None = None
    failover: tuple[Failover, ...] = ()
    failover_priority: tuple[str, ...] = ()
    min_cluster_size: _Weight | None = None


REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
SUBZONE = "topology.istio.io/subzone"
_BY_LOCALITY = (REGION, ZONE, SUBZONE)


def locality_mistakes(setting: LocalityLbSetting) -> Iterator[Finding]:
    """Yield what is wrong with shares and failover; paths start below the setting."""
    if setting.distribute and (setting.failover or setting.failover_priority):
        other = "failover" if setting.failover else "failoverPriority"
        yield ("distribute",), f"can't stand beside {other}: keep one of the two"
    shares = setting.distribute
    yield from _overlap_mistakes(
        (("distribute", index, "from"), each.from_) for index, each in enumerate(shares)
    )
    for index, each in enumerate(shares):
        path = ("distribute", index, "to")
        yield from _overlap_mistakes(((*path, locality), locality) for locality in each.to)
        for locality, weight in each.to.items():
            if not 1 <= weight <= 100:
                yield (*path, locality), f"expected a percentage from 1 to 100, found {weight}"
        if (total := sum(each.to.values())) != 100:
            yield path, f"the percentages must add up to 100, and are {total} together"
    yield from _failover_mistakes(setting.failover)
    yield from _priority_mistakes(setting.failover_priority)
    if setting.failover:
        yield from _locality_label_mistakes(setting.failover_priority, beside="failover")


def zone_aware_mistakes(setting: ZoneAwareLbSetting) -> Iterator[Finding]:
    """Yield what is wrong with the settings of zone-aware balancing; paths start below them."""
    yield from _failover_mistakes(setting.failover)
    yield from _priority_mistakes(setting.failover_priority)
    yield from _locality_label_mistakes(setting.failover_priority, beside="zoneAwareLbSetting")


def _failover_mistakes(failover: tuple[Failover, ...]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, each in enumerate(failover):
        path = ("failover", index)
        for name, region in (("from", each.from_), ("to", each.to)):
            if not region:
                yield (*path, name), "is missing; it names a region"
            elif "/" in region or "*" in region:
                yield (
                    (*path, name),
                    f'"{region}" must be a region alone: no zone, no "/" and no "*"',
                )
        if each.from_ == each.to != "":
            yield (*path, "to"), f"the region {each.to} can't take over from itself"
        if each.from_ in seen:
            yield (*path, "from"), f"the region {each.from_} is given twice"
        seen.add(each.from_)


def _priority_mistakes(labels: tuple[str, ...]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, each in enumerate(labels):
        key = each.partition("=")[0]
        if not key:
            yield ("failoverPriority", index), "must be a label, or label=value"
        elif key in seen:
            yield ("failoverPriority", index), f"the label {key} is given twice"
        seen.add(key)


def _locality_label_mistakes(labels: tuple[str, ...], *, beside: str) -> Iterator[Finding]:
    for index, each in enumerate(labels):
        key = each.partition("=")[0]
        if key in _BY_LOCALITY:
            yield (
                ("failoverPriority", index),
                f"the label {key} can't stand beside {beside}, which is about localities too",
            )


def _overlap_mistakes(localities: Iterable[tuple[FieldPath, str]]) -> Iterator[Finding]:
    """Yield the localities that are malformed, or contain or are contained in one before."""
    seen: list[tuple[str, ...]] = []
    for path, text in localities:
        parts = tuple(text.split("/"))
        if not text:
            yield path, "is missing; a locality is region/zone/subzone, or *"
            continue
        if len(parts) > 3 or not all(parts) or any("*" in each for each in parts[:-1]):
            yield path, f'"{text}" is not a locality such as region/zone/subzone or region/zone/*'
            continue
        if "*" in parts[-1]:
            if parts[-1] != "*":
                yield path, f'"{text}": "*" stands for a whole part'
                continue
            parts = parts[:-1]
        if any(_is_part(parts, each) or _is_part(each, parts) for each in seen):
            yield path, f'"{text}" overlaps with a locality before it'
        seen.append(parts)


def _is_part(parts: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    return parts[: len(whole)] == whole
