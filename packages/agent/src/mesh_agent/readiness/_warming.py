"""Clusters that Envoy has and does not use yet: it waits for their endpoints or their secrets.

While one is warming, an Envoy that starts takes no listeners, and one that runs goes on with the
version of the cluster that it had.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

import envoy_supervisor
from mesh_agent.readiness._gateway import DumpsConfiguration

WARMING = "cluster_manager.warming_clusters"
"""The statistic that counts them."""

_PATTERN = r"^cluster_manager\.warming_clusters$"
_QUERY = "resource=dynamic_warming_clusters&mask=cluster.name"
_MOST_ASKED = 1000
"""Of so many at most the names are asked for: the answer has some 200 bytes of each."""
_MOST_NAMED = 10
_ANSWER_S = 1.0
_LONGEST_NAME = 200


class AsksEnvoy(DumpsConfiguration, Protocol):
    """The part of Envoy's admin interface that is asked here."""

    async def stats(self, pattern: str, /) -> Mapping[str, int | str]:
        """Return the stats whose names match; raises `AdminError`."""


async def warming_clusters(admin: DumpsConfiguration, count: object) -> tuple[str, ...]:
    """Return the names of warming clusters, ten at most; raises `AdminError`.

    count: how many there are, by Envoy's statistics.
    """
    if not isinstance(count, int) or not 0 < count <= _MOST_ASKED:
        return ()
    configs = (await admin.config_dump(_QUERY)).get("configs", [])
    names = [_name(each) for each in configs] if isinstance(configs, list) else []
    return tuple(sorted(name[:_LONGEST_NAME] for name in names if name)[:_MOST_NAMED])


def _name(entry: object) -> str:
    match entry:
        case {"cluster": {"name": str(name)}}:
            return name
        case _:
            return ""


async def warming_fault(admin: DumpsConfiguration, stats: Mapping[str, int | str]) -> str:
    """Return in words which clusters are warming, "" if none is; raises `AdminError`."""
    count = stats.get(WARMING)
    if not isinstance(count, int) or count <= 0:
        return ""
    names = await warming_clusters(admin, count)
    more = f" and {count - len(names)} more" if names and count > len(names) else ""
    named = f": {', '.join(names)}{more}" if names else ""
    return f"{count} warming, without endpoints or a secret that they name{named}"


async def describe_warming(admin: AsksEnvoy) -> Mapping[str, object]:
    """Return how many clusters are warming, and names; {} if Envoy does not tell."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            count = (await admin.stats(_PATTERN)).get(WARMING, 0)
            names = await warming_clusters(admin, count)
    except (envoy_supervisor.AdminError, TimeoutError):
        return {}
    return {"warming": count, "warming_clusters": names}
