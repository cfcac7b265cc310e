"""Fetches the key sets that RequestAuthentications name, again and again.

Each has a task of its own, and slots are shared out by namespace: one that does not answer delays
none of another namespace. A set stays as long as there is no better one; one that Envoy could not
use is not taken, as Envoy would refuse whole listeners.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from istio_config.kinds.request_authentication import KeySetError, check_key_set
from mesh_address_guard import THIS_MACHINE, AddressBlocked, AddressGuard
from mesh_ca import CaError, RemoteJwksConfig, fetch_key_set
from mesh_discovery.sources.key_sets._fair_slots import FairSlots
from mesh_discovery.sources.key_sets._kept_sets import KeptSets, TooMuchKept
from mesh_lifecycle import Backoff, Clock, SystemClock, in_background
from mesh_model import (
    NO_KEY_SETS,
    Facts,
    KeySets,
    KeySource,
    MeshModel,
    WantedKeySet,
    wanted_key_sets,
)

log = logging.getLogger(__name__)

REFRESH_S = 20 * 60.0
GATHER_S = 0.1
"""Sets that come within this time are served together."""
_WITHOUT_A_SET = Backoff(initial_s=1.0, maximum_s=60.0, multiplier=2.0, jitter=0.2)
"""All its tokens are refused meanwhile, so it is not waited for long."""
_WITH_A_SET = Backoff(initial_s=60.0, maximum_s=REFRESH_S, multiplier=2.0, jitter=0.2)
_MOST_AT_ONCE = 32
_MOST_OF_A_NAMESPACE = 8
_MOST_BYTES = 256 * 1024
"""Of one key set: those of the largest issuers have a tenth of it."""

NOT_OF_THIS_MACHINE = AddressGuard(blocked=THIS_MACHINE)
"""The author of a RequestAuthentication is not to reach what trusts the control plane's machine."""

Fetch = Callable[[RemoteJwksConfig], Awaitable[bytes]]


class KeySetFetcher:
    """The key sets that are wanted, as far as they were fetched."""

    def __init__(
        self,
        *,
        fetch: Fetch = fetch_key_set,
        clock: Clock = SystemClock(),  # noqa: B008  stateless
        guard: AddressGuard = NOT_OF_THIS_MACHINE,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._guard = guard
        self._wanted: Mapping[KeySource, WantedKeySet] = {}
        self._tasks: dict[KeySource, asyncio.Task[None]] = {}
        self._fetched = KeptSets()
        self._other_wanted = asyncio.Event()
        self._came = asyncio.Event()
        self._slots = FairSlots(of_a_namespace=_MOST_OF_A_NAMESPACE, in_all=_MOST_AT_ONCE)
        self.key_sets = NO_KEY_SETS

    @property
    def missing(self) -> int:
        """How many key sets are wanted, and were never fetched."""
        return sum(each not in self._fetched for each in self._wanted)

    def want(self, sources: Mapping[KeySource, WantedKeySet]) -> None:
        """Keep these key sets from now on, and no others."""
        if sources.keys() != self._wanted.keys():
            self._other_wanted.set()
        self._wanted = sources

    def add_to(self, facts: Facts) -> Facts:
        """Return facts with the key sets."""
        return replace(facts, key_sets=self.key_sets)

    def on_model(self, model: MeshModel) -> None:
        """Keep the key sets that the policies of a mesh name."""
        self.want(wanted_key_sets(model.workload_rules))

    @asynccontextmanager
    async def following(self, on_change: Callable[[], None]) -> AsyncIterator[None]:
        """Fetch key sets while the block runs; on_change: called when some are others."""
        async with (
            in_background(self._notify(on_change), name="key sets that came"),
            in_background(self._run(), name="key sets of issuers"),
        ):
            yield

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self._other_wanted.clear()
                for gone in self._tasks.keys() - self._wanted.keys():
                    self._tasks.pop(gone).cancel()
                    self._fetched.drop(gone)
                for source in [each for each in self._wanted if each not in self._tasks]:
                    self._tasks[source] = group.create_task(self._keep(source))
                await self._other_wanted.wait()

    async def _notify(self, on_change: Callable[[], None]) -> None:
        while True:
            await self._came.wait()
            await self._clock.sleep(GATHER_S)
            self._came.clear()
            self.key_sets = KeySets(self._fetched)
            on_change()

    async def _keep(self, source: KeySource) -> None:
        """Fetch a key set, and again after a while; after failures it is tried sooner."""
        delays = _WITHOUT_A_SET.delays()
        why, is_first = "", True
        while (wanted := self._wanted.get(source)) is not None:
            async with self._slots.taken(wanted.namespaces, is_first=is_first) as namespace:
                failure = await self._try(source, wanted, namespace)
            is_first = False
            if not failure:
                delays, why = _WITH_A_SET.delays(), ""
                await self._clock.sleep(REFRESH_S)
                continue
            if failure != why:
                why = failure
                log.warning(
                    "a key set can't be fetched, the last good one stays"
                    if source in self._fetched
                    else "a key set can't be fetched, tokens of its issuer are refused",
                    extra={"uri": source.uri, "issuer": source.issuer, "reason": failure},
                )
            await self._clock.sleep(next(delays))

    async def _try(self, source: KeySource, wanted: WantedKeySet, namespace: str) -> str:
        """Fetch a key set; return why that was not possible, or nothing."""
        config = RemoteJwksConfig(
            url=source.uri,
            issuer=source.issuer,
            timeout_s=wanted.timeout_s,
            guard=self._guard,
            for_whom=namespace,
            max_bytes=_MOST_BYTES,
            # Checks of the configuration warn of it.
            allow_http=(source.uri or source.issuer).startswith("http://"),
        )
        try:
            text = await self._fetch(config)
            check_key_set(text)
            found = _in_order(text)
            if self._fetched.get(source) != found:
                self._fetched.keep(source, found, wanted.namespaces)
                about = {"uri": source.uri, "issuer": source.issuer}
                log.info("a key set was fetched", extra=about)
                self._came.set()
        except (CaError, KeySetError, RecursionError, TooMuchKept) as error:
            if isinstance(error.__cause__, AddressBlocked):
                return f"{error}; --key-set-networks allows networks of this machine"
            return str(error)
        return ""


def _in_order(text: bytes) -> str:
    """Write a key set always in the same way: issuers may write it in another at each request."""
    keys = json.loads(text)["keys"]
    written = sorted(json.dumps(each, sort_keys=True) for each in keys)
    return f'{{"keys": [{", ".join(written)}]}}'
