"""A push waits for its client between two types, and never for longer than the server allows."""

from __future__ import annotations

import pytest

from xds_server import Generated, Resource
from xds_server import type_urls as types
from xds_server.monitoring._status import Nack
from xds_server.subscriptions._push_contents import PushContents
from xds_server.subscriptions._push_waits import PushWaits
from xds_server.subscriptions._subscription import Subscription
from xds_server.subscriptions._warming import Warming
from xds_state import Make

CDS, EDS, LDS, RDS = types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE


class Client:
    """What a server knows of one client, and its clock."""

    def __init__(self, *, hold_until_ack_s: float | None = None) -> None:
        self.now = 100.0
        self.subscriptions: dict[str, Subscription] = {}
        self.warming = Warming()
        self.waits = PushWaits(
            self.subscriptions,
            self.warming,
            order_wait_s=5.0,
            hold_until_ack_s=hold_until_ack_s,
            now=lambda: self.now,
        )

    def subscribe(self, type_url: str, *names: str) -> Subscription:
        self.subscriptions[type_url] = subscription = Subscription(
            type_url=type_url, names=frozenset(names), wildcard=not names
        )
        return subscription

    def begin(self, *listeners: Resource) -> frozenset[str]:
        query = self.subscriptions[LDS].query
        return self.waits.begin(
            PushContents([query], lambda _query: Generated(resources=listeners, version="1"))
        )


@pytest.fixture
def client() -> Client:
    return Client()


def test_without_a_reason_nothing_is_waited_for(client: Client, make: Make) -> None:
    for type_url in (CDS, LDS):
        client.subscribe(type_url).record_response(nonce="1", version="1", now=client.now)
    client.begin(make.http_listener("l", route="r"))  # it asks for no routes at all

    waits = client.waits
    found = [waits.for_all_answers(), waits.for_endpoints(), waits.for_routes()]
    assert found == [False, False, False]
    assert not waits.may_be_due
    assert list(waits.due_times()) == []


def test_answers_are_waited_for_as_long_as_the_server_holds() -> None:
    client = Client(hold_until_ack_s=15.0)
    clusters, listeners = client.subscribe(CDS), client.subscribe(LDS)
    clusters.record_response(nonce="1", version="1", now=client.now)
    listeners.record_response(nonce="2", version="1", now=client.now)
    listeners.record_ack(now=client.now)

    assert client.waits.for_answer(CDS)
    assert not client.waits.for_answer(LDS)
    assert client.waits.for_all_answers()
    assert client.waits.may_be_due
    assert list(client.waits.due_times()) == [115.0]

    client.now = 115.0
    assert not client.waits.for_all_answers()


def test_endpoints_of_new_clusters_are_waited_for_and_then_given_up(
    client: Client, make: Make
) -> None:
    client.subscribe(EDS, "c")
    client.warming.on_clusters({"c": make.cluster("c")})

    assert client.waits.for_endpoints()
    assert list(client.waits.due_times()) == [105.0]

    client.now = 104.9
    assert client.waits.for_endpoints()
    assert client.warming.awaited == {"c"}

    client.now = 105.0
    assert not client.waits.for_endpoints()
    assert client.warming.awaited == frozenset()
    assert not client.waits.may_be_due


def test_endpoints_that_come_end_the_wait(client: Client, make: Make) -> None:
    client.subscribe(EDS, "c")
    client.warming.on_clusters({"c": make.cluster("c")})
    assert client.waits.for_endpoints()

    client.warming.on_endpoints({"c"})
    assert not client.waits.for_endpoints()
    assert list(client.waits.due_times()) == []


def test_routes_of_new_listeners_are_waited_for_until_they_are_asked_for(
    client: Client, make: Make
) -> None:
    client.subscribe(LDS)
    routes = client.subscribe(RDS, "known")

    assert client.begin(
        make.http_listener("l1", route="known"), make.http_listener("l2", route="new")
    ) == {"new"}
    assert client.waits.for_routes()

    routes.names = frozenset({"known", "new"})
    assert not client.waits.for_routes()
    assert not client.waits.may_be_due


def test_a_client_that_refused_the_listeners_is_not_waited_for(client: Client, make: Make) -> None:
    listeners = client.subscribe(LDS)
    client.subscribe(RDS, "known")
    client.begin(make.http_listener("l", route="new"))
    listeners.nack = Nack(
        version="1", nonce="1", code=3, message="no", since=client.now, last=client.now, count=1
    )

    assert not client.waits.for_routes()


def test_each_wait_has_all_of_its_time(client: Client, make: Make) -> None:
    client.subscribe(LDS)
    client.subscribe(RDS, "known")
    client.subscribe(EDS, "c")
    client.begin(make.http_listener("l", route="new"))
    client.warming.on_clusters({"c": make.cluster("c")})
    assert client.waits.for_endpoints()

    client.now = 105.0
    assert not client.waits.for_endpoints()
    assert client.waits.for_routes()
    assert list(client.waits.due_times()) == [110.0]
