"""Clients that are alike share all that is as large as the mesh, whatever they went through.

Counted are the objects, as each of them is half a megabyte with ten thousand services.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from xds_server import Generated, Resource
from xds_server import type_urls as types
from xds_server.protocol._names import NO_NAMES, shared_names
from xds_server.protocol._request import DeltaRequest, SotwRequest
from xds_server.subscriptions._delta import DeltaState
from xds_server.subscriptions._sotw import SotwState
from xds_server.subscriptions._subscription import Query
from xds_state import Make

CDS, EDS = types.CLUSTER, types.ENDPOINT
CLIENTS = 20


class Mesh:
    """All clusters for each client, and of the endpoints only those that a push is about."""

    def __init__(self, make: Make, services: int) -> None:
        self._make = make
        self.clusters = {f"s{n}": make.cluster(f"s{n}") for n in range(services)}
        self.endpoints = {name: make.endpoints(name) for name in self.clusters}
        self._generated: dict[tuple[str, frozenset[str]], Generated] = {}

    def change_clusters(self, change: int) -> None:
        """As a new default for the mesh does."""
        self.clusters = {name: self._make.cluster(name, change=change) for name in self.clusters}
        self._generated.clear()

    def change_endpoints(self, name: str, change: int) -> None:
        self.endpoints[name] = self._make.endpoints(name, change=change)
        self._generated.clear()

    def add(self, name: str) -> None:
        self.clusters[name] = self._make.cluster(name)
        self.change_endpoints(name, 0)

    def remove(self, name: str) -> None:
        del self.clusters[name], self.endpoints[name]
        self._generated.clear()

    def generate(self, query: Query, *, changed: frozenset[str] | None) -> Generated | None:
        names = NO_NAMES if query.type_url == CDS else query.watch.names
        if changed is not None and not query.requested and query.type_url == EDS:
            names &= changed
            if not names:
                return None
        key = query.type_url, names
        if key not in self._generated:
            there = self.clusters if query.type_url == CDS else self.endpoints
            wanted = there if query.type_url == CDS else sorted(names & there.keys())
            self._generated[key] = Generated(resources=tuple(there[name] for name in wanted))
        return self._generated[key]


class Client:
    """A stream that asks for all clusters and for the endpoints of those it was sent."""

    def __init__(self, mesh: Mesh, *, delta: bool) -> None:
        self._mesh = mesh
        self._delta = delta
        self.stream: DeltaState | SotwState = (DeltaState if delta else SotwState)(
            nonce_prefix="n",
            order_wait_s=5.0,
            hold_until_ack_s=None,
            drain_time_s=0.0,
            now=lambda: 0.0,
            version=lambda: "v",
        )
        self._names: frozenset[str] = NO_NAMES
        self.clusters_body = b""
        self._ask(CDS, NO_NAMES)

    def push(self, changed: frozenset[str] | None) -> None:
        """Push a change of these endpoints; None: of everything."""
        self._take(self.stream.push(partial(self._mesh.generate, changed=changed)))

    def held(self) -> list[object]:
        """All that may be as large as the mesh."""
        warming, found = self.stream.warming, list[object]()
        for type_url in (CDS, EDS):
            subscription = self.stream.subscriptions[type_url]
            found += [subscription.client_has, subscription.answer, subscription.names]
        return [*found, warming.awaited, warming._unconfirmed, warming._missing]

    def _take(self, responses: object) -> None:
        for response in responses:  # type: ignore[attr-defined]
            if response is None:
                return
            if response.type_url == CDS:
                self.clusters_body = response.body
                has = self.stream.subscriptions[CDS].client_has
                wanted = shared_names(frozenset(has))
                added, self._names = wanted - self._names, wanted
                if added or not self._delta:
                    self._ask(EDS, added if self._delta else wanted)
            self._acknowledge(response.type_url, response.nonce)

    def _ask(self, type_url: str, names: frozenset[str]) -> None:
        request = (
            DeltaRequest(type_url=type_url, subscribe=names)
            if self._delta
            else SotwRequest(type_url=type_url, names=names, nonce=self._nonce(type_url))
        )
        self._receive(request)

    def _acknowledge(self, type_url: str, nonce: str) -> None:
        names = self._names if type_url == EDS else NO_NAMES
        self._receive(
            DeltaRequest(type_url=type_url, nonce=nonce)
            if self._delta
            else SotwRequest(type_url=type_url, names=names, nonce=nonce, version="v")
        )

    def _nonce(self, type_url: str) -> str:
        subscription = self.stream.subscriptions.get(type_url)
        return "" if subscription is None else subscription.nonce_sent

    def _receive(self, request: DeltaRequest | SotwRequest) -> None:
        queries = self.stream.receive(request).queries  # type: ignore[arg-type]
        self._take(self.stream.answers(queries, partial(self._mesh.generate, changed=None)))


def distinct(clients: list[Client]) -> list[int]:
    """How many objects the clients have of each kind that they hold."""
    return [
        len({id(each) for each in kind}) for kind in zip(*(c.held() for c in clients), strict=True)
    ]


@pytest.mark.parametrize("delta", [False, True])
def test_what_clients_hold_is_one_object_for_all_after_every_kind_of_change(
    make: Make, *, delta: bool
) -> None:
    mesh = Mesh(make, 30)
    clients = [Client(mesh, delta=delta) for _ in range(CLIENTS)]
    assert distinct(clients) == [1] * 9
    changes: list[tuple[str, Callable[[], None], frozenset[str] | None]] = [
        ("an endpoint", lambda: mesh.change_endpoints("s3", 1), frozenset({"s3"})),
        ("a service more", lambda: mesh.add("new"), None),
        ("all clusters", lambda: mesh.change_clusters(2), None),
        ("a service less", lambda: mesh.remove("s5"), None),
        ("another endpoint", lambda: mesh.change_endpoints("s4", 1), frozenset({"s4"})),
    ]
    for what, change, changed in changes:
        change()
        for client in clients:
            client.push(changed)
        assert distinct(clients) == [1] * 9, what
        assert len({id(client.clusters_body) for client in clients}) == 1, what
        for client in clients:
            held = client.stream.subscriptions
            assert {n: r.version for n, r in held[CDS].client_has.items()} == {
                n: r.version for n, r in mesh.clusters.items()
            }, what
            assert all(
                held[EDS].client_has[n].version == r.version for n, r in mesh.endpoints.items()
            ), what


def test_clients_that_were_pushed_to_unlike_each_other_share_again_when_they_have_the_same(
    make: Make,
) -> None:
    """Some get two changes as one push, as a client does that reads slowly."""
    mesh = Mesh(make, 30)
    clients = [Client(mesh, delta=False) for _ in range(CLIENTS)]
    chance = random.Random(1)
    waits = {client: frozenset[str]() for client in clients}
    for change in range(1, 6):
        name = f"s{change}"
        mesh.change_endpoints(name, change)
        for client in clients:
            waits[client] |= {name}
            if chance.random() < 0.5:
                client.push(waits[client])
                waits[client] = NO_NAMES
    for client in clients:
        client.push(waits[client])
    assert distinct(clients) == [1] * 9


def test_endpoints_that_are_sent_again_with_their_clusters_are_one_mapping_for_all(
    make: Make,
) -> None:
    """It is by the mapping that a response is known to be encoded already."""
    mesh = Mesh(make, 30)
    clients = [Client(mesh, delta=True) for _ in range(CLIENTS)]
    mesh.clusters |= {f"s{n}": make.cluster(f"s{n}", change=7) for n in range(10)}
    mesh._generated.clear()
    sent: dict[str, set[int]] = {}
    kept = []
    for client in clients:
        for response in client.stream.push(partial(mesh.generate, changed=None)):
            assert response is not None
            kept.append(response)
            sent.setdefault(response.type_url, set()).add(id(response.resources))
            assert len(response.resources) == 10
    assert {type_url: len(found) for type_url, found in sent.items()} == {CDS: 1, EDS: 1}


def test_a_client_that_stays_behind_keeps_no_mapping_alive_that_came_after_its_own(
    make: Make,
) -> None:
    mesh = Mesh(make, 5)
    behind, goes_on = (Client(mesh, delta=False) for _ in range(2))
    first = behind.stream.subscriptions[EDS].client_has
    seen = []
    for change in range(1, 4):
        mesh.change_endpoints("s1", change)
        goes_on.push(frozenset({"s1"}))
        seen.append(id(goes_on.stream.subscriptions[EDS].client_has))
    successor = first._successor
    assert successor is not None
    assert successor.after() is None
    assert isinstance(successor.new["s1"], Resource)
