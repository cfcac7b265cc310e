"""The configuration as served: the last good one, and what is wrong with the files since."""

import logging
import time
from collections.abc import Callable

from mesh_discovery._changes import difference
from mesh_discovery._generators import State
from mesh_discovery._loader import Load
from mesh_discovery._metrics import Metrics
from mesh_discovery._problems import ConfigError, Problem
from mesh_discovery._world import World, build_world
from xds_server import PushRequest

log = logging.getLogger(__name__)


class ConfigStore:
    """Takes loads; keeps the last good one and tells of the difference."""

    def __init__(self, first: Load, *, metrics: Metrics, trust_domain: str) -> None:
        """Begin with a first load; raises `ConfigError` if it is not good."""
        if first.snapshot is None:
            raise ConfigError(first.problems)
        self._metrics = metrics
        self._default_trust_domain = trust_domain
        self.snapshot = first.snapshot
        self.problems: tuple[Problem, ...] = ()
        self.loaded_at = time.time()
        """Of the configuration that is served."""
        self.looked_at = self.loaded_at
        self.files = first.files
        self.state = State(self._world(first))
        self._say_notes()

    def take(self, load: Load, notify: Callable[[PushRequest], None]) -> None:
        """Make a load the one served, if it is good; else say once what is wrong with it."""
        self.looked_at = time.time()
        self._metrics.config_problems.set(len(load.problems))
        if load.snapshot is None:
            self._metrics.config_loads.labels("refused").inc()
            if load.problems != self.problems:
                self.problems = load.problems
                log.error(
                    "configuration has mistakes, the last good one stays",
                    extra={"problems": [str(each) for each in load.problems]},
                )
            return
        if self.problems:
            log.info("configuration is good again")
        self.problems = ()
        self.files = load.files
        if load.snapshot == self.snapshot:
            self._metrics.config_loads.labels("unchanged").inc()
            return
        self._metrics.config_loads.labels("changed").inc()
        self.snapshot = load.snapshot
        self.loaded_at = self.looked_at
        self._say_notes()
        self._move_to(self._world(load), notify)

    def _move_to(self, world: World, notify: Callable[[PushRequest], None]) -> None:
        before = self.state.pending
        request = difference(before, world)
        self.state.pending = world
        if request is None:
            return
        if before.trust_domain != world.trust_domain:
            log.warning(
                "the trust domain changed: certificates are issued for the old one until restart",
                extra={"old": before.trust_domain, "new": world.trust_domain},
            )
        log.info(
            "configuration changed",
            extra={
                "services": len(world.services),
                "full": request.full,
                "changed": len(request.configs_updated) or "everything",
            },
        )
        notify(request)

    def _world(self, load: Load) -> World:
        if load.snapshot is None:
            raise ConfigError(load.problems)
        world = build_world(load.snapshot, default_trust_domain=self._default_trust_domain)
        self._metrics.services.set(len(world.services))
        return world

    def _say_notes(self) -> None:
        for note in self.snapshot.notes:
            log.warning("configuration without effect", extra={"what": str(note)})
