"""The callers that may ask for debug pages over xDS: of which proxies, and how often.

As in Istio: workloads of the control plane's namespaces may ask for everything, those of others for
what is given to proxies of their own namespace; a caller that has proven nothing for nothing.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from mesh_discovery.sources.registration._allowance import Allowance
from mesh_identity import InvalidSpiffeId, SpiffeId
from mesh_lifecycle import RepeatLog
from xds_server import Client, Refused

log = logging.getLogger(__name__)

FOR_OWN_NAMESPACE = frozenset({"config_dump", "edsz", "ndsz"})
"""The pages that tell a workload of no more than proxies of its own namespace are given."""

_AT_ONCE, _PER_SECOND = 20, 2.0
_ALL_AT_ONCE, _ALL_PER_SECOND = 100, 10.0
_S_OF_ONE = 0.025
"""The time that an answer takes for one of those; a longer one counts for more. Answers are made on
the event loop that serves every proxy: a namespace can have 5 % of it, all together 25 %.
"""
_MOST_NAMESPACES = 1024
_QUIET_S = 600.0


class DebugCallers:
    """Decides over callers by the identities that they have proven."""

    def __init__(
        self,
        *,
        trust_domain: str,
        admins: Callable[[], Iterable[str]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """trust_domain: of the only identities that count.

        admins: returns the namespaces whose workloads may ask for everything.
        """
        self._trust_domain = trust_domain
        self._admins = admins
        self._now = monotonic
        self._in_all = Allowance(_ALL_AT_ONCE, per_second=_ALL_PER_SECOND)
        self._of_namespace: dict[str, Allowance] = {}
        self._refused = RepeatLog(log, "debug page refused", quiet_s=_QUIET_S, now=monotonic)

    @contextmanager
    def answering(
        self, client: Client[Any], page: str, *, for_own_namespace: bool = False
    ) -> Iterator[str | None]:
        """Yield the only namespace that a caller may see, None if it may see all.

        The page is made in the block, whose time counts. for_own_namespace: the page can be held to
        one, as those of `FOR_OWN_NAMESPACE` are. Raises `Refused` for a caller that may not have
        the page, or asks too often.
        """
        namespace = self._namespace_of(client, page, for_own_namespace=for_own_namespace)
        begun = self._now()
        try:
            yield namespace
        finally:
            beyond_one = (self._now() - begun) / _S_OF_ONE - 1
            if beyond_one > 0:
                self._of_namespace[min(self._proven_namespaces(client.identities))].take(beyond_one)
                self._in_all.take(beyond_one)

    def _namespace_of(
        self, client: Client[Any], page: str, *, for_own_namespace: bool
    ) -> str | None:
        own = self._proven_namespaces(client.identities)
        if not own:
            raise self._refusal(
                client,
                page,
                grpc.StatusCode.UNAUTHENTICATED,
                "debug pages are for callers that have proven who they are: connect over TLS, with "
                "a token or a certificate of the mesh",
            )
        self._count(client, page, min(own))
        if not own.isdisjoint(self._admins()):
            return None
        if not for_own_namespace and page not in FOR_OWN_NAMESPACE:
            admins = ", ".join(sorted(set(self._admins())))
            raise self._refusal(
                client,
                page,
                grpc.StatusCode.PERMISSION_DENIED,
                f"{page[:64]!r} is for workloads of {admins}; yours may ask for "
                f"{', '.join(sorted(FOR_OWN_NAMESPACE))} of proxies in its own namespace",
            )
        return min(own)

    def _proven_namespaces(self, identities: Iterable[str]) -> frozenset[str]:
        found = set()
        for each in identities:
            try:
                shown = SpiffeId.parse(each)
            except InvalidSpiffeId:
                continue
            if shown.trust_domain == self._trust_domain and shown.namespace:
                found.add(shown.namespace)
        return frozenset(found)

    def _count(self, client: Client[Any], page: str, namespace: str) -> None:
        now = self._now()
        own = self._of_namespace.get(namespace)
        if own is None:
            if len(self._of_namespace) >= _MOST_NAMESPACES:
                kept = self._of_namespace.items()
                self._of_namespace = {name: each for name, each in kept if not each.is_full(now)}
            own = self._of_namespace[namespace] = Allowance(_AT_ONCE, per_second=_PER_SECOND)
        if not (own.has_one(now) and self._in_all.has_one(now)):
            raise self._refusal(
                client,
                page,
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"too many debug pages: of one namespace {_PER_SECOND:g} a second are answered, in "
                f"all {_ALL_PER_SECOND:g}, and large ones count for more; try again later",
            )
        own.take()
        self._in_all.take()

    def _refusal(
        self, client: Client[Any], page: str, code: grpc.StatusCode, reason: str
    ) -> Refused:
        who = ", ".join(client.identities)[:300] or "a caller without proof"
        facts = {"page": page[:64], "node": client.node.id[:256], "code": code.name}
        self._refused.happened(who, reason=reason, facts={"identities": who, **facts})
        return Refused(code, reason)
