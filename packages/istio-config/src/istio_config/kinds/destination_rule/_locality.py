"""Which localities a client prefers; mesh config has the same settings for all services."""

from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.fields import SpecFields

_Weight: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class Distribute(SpecFields, frozen=True):
    """The shares of localities, in percent, of what clients of one locality send."""

    from_: str = msgspec.field(name="from", default="")
    to: dict[str, _Weight] = msgspec.field(default_factory=dict)


class Failover(SpecFields, frozen=True):
    """The region that takes over from another."""

    from_: str = msgspec.field(name="from", default="")
    to: str = ""


class LocalityLbSetting(SpecFields, frozen=True):
    """Shares of localities, or the order in which they take over from each other."""

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
