"""A replica leaves service before it stops, so that no request is lost with it.

First no proxy sends it new requests, then it finishes those that it has. An agent that stops sees
to the second itself; a program that stops alone is waited for here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mesh_local._errors import NoAnswer
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.observation._control_plane_pages import is_out_of_service
from mesh_local.observation._envoy_clusters import INBOUND, fetch_endpoint_use

log = logging.getLogger("mesh_local")

OUT_OF_SERVICE_WITHIN_S = 5.0
_POLL_S = 0.05


async def until_out_of_service(
    plan: MeshPlan, instance: Instance, *, give_up: asyncio.Event
) -> None:
    """Wait until every proxy knows that a replica gets no more requests; for some seconds."""
    await _wait(
        lambda: is_out_of_service(plan, instance),
        give_up=give_up,
        timeout_s=OUT_OF_SERVICE_WITHIN_S,
        otherwise="not every proxy knows that a replica leaves",
        instance=instance,
    )


async def until_idle(instance: Instance, *, give_up: asyncio.Event, timeout_s: float) -> None:
    """Wait until a replica's program has answered what its Envoy has passed on to it."""

    async def is_idle() -> bool:
        use = await fetch_endpoint_use(instance.addresses.agent)
        return not any(each.active for each in use if each.cluster.startswith(INBOUND))

    await _wait(
        is_idle,
        give_up=give_up,
        timeout_s=timeout_s,
        otherwise="requests to a program that is stopped are still under way",
        instance=instance,
    )


async def _wait(
    holds: Callable[[], Awaitable[bool]],
    *,
    give_up: asyncio.Event,
    timeout_s: float,
    otherwise: str,
    instance: Instance,
) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            while not give_up.is_set():
                try:
                    if await holds():
                        return
                except NoAnswer:  # the process that is asked starts again, or has ended
                    pass
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        log.warning(otherwise, extra={"replica": instance.name, "timeout_s": timeout_s})
