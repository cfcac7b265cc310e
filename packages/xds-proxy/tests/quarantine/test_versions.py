"""In delta it is known which version of a quarantined resource was refused, and which counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from envoy.admin.v3.config_dump_shared_pb2 import ClientResourceStatus
from envoy.service.status.v3 import csds_pb2

from mesh_lifecycle import in_background
from model_envoys import ROUTE, DeltaEnvoy
from quarantining_models import Plane, Saved, Stream
from xds_proxy import HeldConfiguration
from xds_proxy.protocol._dialect import DELTA
from xds_proxy.quarantine._quarantine import Quarantine
from xds_proxy.services._status_messages import write_response
from xds_proxy.session._held import HeldResources


class UnnamingEnvoy(DeltaEnvoy):
    """Does not say which route it refuses, as Envoy does not."""

    def _request(self, type_url: str, *, error: str | None = None, **fields: object) -> None:
        said = None if error is None else "Only unique values for domains are permitted."
        super()._request(type_url, error=said, **fields)  # type: ignore[arg-type]


@asynccontextmanager
async def streaming(quarantine: Quarantine, saved: Saved) -> AsyncIterator[Stream]:
    stream = Stream(DELTA, quarantine, saved)
    stream.envoy = UnnamingEnvoy(stream._from_envoy.append, all_or_nothing=True)
    async with in_background(stream.quarantining.run(), name="quarantining"):
        stream.envoy.subscribe(ROUTE)
        await stream.settle()
        yield stream


def shown(stream: Stream) -> dict[str, tuple[int, str, str]]:
    """Return state, version in force and version refused by name, as CSDS tells them."""
    client = HeldConfiguration(
        node=stream.session.node,
        process=None,
        leading=True,
        resources=stream.session.held(),
        requested=stream.session.requested(),
        types=stream.status.types,
    )
    response = csds_pb2.ClientStatusResponse.FromString(write_response([client]))
    (config,) = response.config
    return {
        each.name: (each.client_status, each.version_info, each.error_state.version_info)
        for each in config.generic_xds_configs
    }


async def test_a_resource_that_envoy_had_before_is_reported_with_both_versions() -> None:
    plane = Plane(DELTA)
    names = {"route-0", "route-1", "route-2"}
    async with asyncio.timeout(60), streaming(Quarantine(lambda: 0.0), Saved()) as stream:
        for name in sorted(names):
            plane.change(name, bad=False)
        stream.push(plane.response(names))
        await stream.settle()
        before = plane.routes["route-0"][0]
        for name in sorted(names):
            plane.change(name, bad=name == "route-0")
        stream.push(plane.response(names))
        await stream.settle()
        now = {name: str(number) for name, (number, _) in plane.routes.items()}
        assert shown(stream) == {
            "route-0": (ClientResourceStatus.NACKED, str(before), now["route-0"]),
            "route-1": (ClientResourceStatus.ACKED, now["route-1"], ""),
            "route-2": (ClientResourceStatus.ACKED, now["route-2"], ""),
        }


async def test_a_new_envoy_has_the_last_good_version_and_the_refused_one_is_reported() -> None:
    plane, quarantine, saved = Plane(DELTA), Quarantine(lambda: 0.0), Saved()
    names = {"route-0", "route-1"}
    async with asyncio.timeout(60), streaming(quarantine, saved) as old:
        for name in sorted(names):
            plane.change(name, bad=False)
        old.push(plane.response(names))
        await old.settle()
        before = plane.routes["route-0"][0]
        for name in sorted(names):
            plane.change(name, bad=name == "route-0")
        old.push(plane.response(names))
        await old.settle()
        refused = str(plane.routes["route-0"][0])
        async with streaming(quarantine, saved) as new:
            new.push(plane.response(names))
            await new.settle()
            expected = (ClientResourceStatus.NACKED, f"saved-{before}", refused)
            assert shown(new)["route-0"] == expected
            assert plane.body("route-0") not in new.envoy.have[ROUTE].values()


def test_of_more_than_two_versions_none_is_reported() -> None:
    held = HeldResources()
    held.add({"a": "1"}, at=0.0)
    held.doubt({"a": "2"}, at=1.0)
    held.doubt({"a": "3"}, at=2.0)
    held.refused_alone({"a": "3"})
    assert held.versions == {"a": ""}, "it may be 1 or 2"
    held.add({"a": "4"}, at=3.0)
    held.doubt({"a": "5"}, at=4.0)
    held.refused_alone({"a": "4"})
    assert held.versions == {"a": ""}, "another was refused"
    held.refused_alone({"a": "5"})
    assert held.versions == {"a": "4"}
