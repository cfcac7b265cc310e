"""Responses that Envoy has not answered yet when the upstream stream is replaced by another."""

from __future__ import annotations

from envoy.service.discovery.v3 import discovery_pb2

from session_models import CLUSTER, NODE
from xds_proxy.answers._learning import names_on_the_way
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD, Dialect
from xds_proxy.session._held import contents_of
from xds_proxy.session._session import Session
from xds_proxy.status._acks_and_nacks import DeliveryStatus

ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"


class _Envoy:
    """A session with its Envoy, which answers when a test says so."""

    def __init__(self, dialect: Dialect, type_url: str = CLUSTER) -> None:
        self.type_url = type_url
        self.session = Session(
            dialect,
            delivery_status=DeliveryStatus(),
            now=lambda: 0.0,
            max_subscription_bytes=1 << 20,
            max_unanswered_bytes=1 << 20,
        )
        self._nonces = 0

    def gets(self, versions: dict[str, str], removed: tuple[str, ...] = ()) -> str:
        """Send Envoy a response in delta; returns its nonce."""
        self._nonces += 1
        message = discovery_pb2.DeltaDiscoveryResponse(
            type_url=self.type_url, nonce=str(self._nonces), removed_resources=removed
        )
        for name, version in versions.items():
            message.resources.add(name=name, version=version).resource.type_url = self.type_url
        self._pass(message.SerializeToString())
        return message.nonce

    def gets_whole(self, version: str) -> str:
        """Send Envoy a response in state of the world; returns its nonce."""
        self._nonces += 1
        message = discovery_pb2.DiscoveryResponse(
            type_url=self.type_url, nonce=str(self._nonces), version_info=version
        )
        self._pass(message.SerializeToString())
        return message.nonce

    def _pass(self, raw: bytes) -> None:
        peeked = self.session.dialect.read_response(raw)
        self.session.response(raw, peeked, generation=self.session.generation, shown=raw)

    def says(
        self, nonce: str = "", *, version: str = "", names: tuple[str, ...] = (), error: str = ""
    ) -> None:
        """Send a request of Envoy's."""
        request: discovery_pb2.DiscoveryRequest | discovery_pb2.DeltaDiscoveryRequest
        if self.session.dialect is DELTA:
            request = discovery_pb2.DeltaDiscoveryRequest(
                type_url=self.type_url, response_nonce=nonce, resource_names_subscribe=names
            )
        else:
            request = discovery_pb2.DiscoveryRequest(
                type_url=self.type_url, response_nonce=nonce, version_info=version
            )
        request.node.id = NODE
        if error:
            request.error_detail.message = error
        for answered in self.session.request(request.SerializeToString()).answered:
            sent = answered.sent
            assert sent.response is not None
            contents = contents_of(self.session.dialect, sent.response, sent.version)
            self.session.learn(answered, contents)

    async def reconnects(self) -> bytes:
        """Return the request that a new upstream stream begins with."""
        session = self.session
        session.on_upstream_end()
        unanswered = [(sent.type_url, sent.response) for sent in session.unanswered()]
        requests = session.on_upstream_open(await names_on_the_way(session.dialect, unanswered))
        ((_, request),) = requests
        return request

    async def versions_sent(self) -> dict[str, str]:
        """Return the versions that a new upstream stream is sent in delta."""
        request = discovery_pb2.DeltaDiscoveryRequest.FromString(await self.reconnects())
        return dict(request.initial_resource_versions)


async def test_in_delta_what_is_on_the_way_is_named_without_a_version() -> None:
    """The control plane may remove it, put it back, or take an update back before Envoy answers."""
    envoy = _Envoy(DELTA)
    envoy.session.on_upstream_open()
    envoy.says()
    envoy.says(envoy.gets({"first": "1", "same": "1", "updated": "1", "removed": "1"}))
    nonces = [envoy.gets({"updated": "2", "added": "2"}, removed=("removed",))]
    nonces.append(envoy.gets({"second": "3"}))
    expected = {"first": "", "same": "1", "updated": "", "removed": "", "added": "", "second": ""}
    assert await envoy.versions_sent() == expected
    for nonce in nonces:
        envoy.says(nonce)
    assert await envoy.versions_sent() == {
        "first": "",
        "same": "1",
        "updated": "2",
        "added": "2",
        "second": "3",
    }


async def test_a_name_that_envoy_no_longer_wants_is_not_sent() -> None:
    envoy = _Envoy(DELTA, ENDPOINT)
    envoy.session.on_upstream_open()
    envoy.says(names=("wanted",))
    envoy.gets({"wanted": "1", "other": "1"})
    assert await envoy.versions_sent() == {"wanted": ""}


async def test_in_state_of_the_world_the_version_is_left_out_while_a_newer_one_is_on_the_way() -> (
    None
):
    envoy = _Envoy(STATE_OF_THE_WORLD)
    envoy.session.on_upstream_open()
    envoy.says()
    envoy.says(envoy.gets_whole("v1"), version="v1")
    nonce = envoy.gets_whole("v2")
    replayed = discovery_pb2.DiscoveryRequest.FromString(await envoy.reconnects())
    assert (replayed.version_info, replayed.node.id) == ("", NODE)
    envoy.says(nonce, version="v2")
    replayed = discovery_pb2.DiscoveryRequest.FromString(await envoy.reconnects())
    assert (replayed.version_info, replayed.response_nonce) == ("v2", "")


async def test_of_a_refused_response_the_other_resources_have_no_version_that_is_known() -> None:
    """Envoy has taken those before the bad one, for endpoints and routes."""
    envoy = _Envoy(DELTA, ENDPOINT)
    envoy.session.on_upstream_open()
    envoy.says(names=("first", "aaa", "bbb", "ccc"))
    envoy.says(envoy.gets({"first": "1", "aaa": "1", "bbb": "1", "ccc": "1"}))
    envoy.says(envoy.gets({"aaa": "2", "bbb": "2"}), error="'bbb' is malformed")
    assert await envoy.versions_sent() == {"first": "", "aaa": "", "bbb": "1", "ccc": "1"}


async def test_envoy_has_nothing_of_a_response_that_it_had_not_asked_for() -> None:
    """Envoy passes over it without an answer."""
    envoy = _Envoy(DELTA)
    envoy.session.on_upstream_open()
    envoy.gets({"unasked": "1"})
    envoy.says()
    envoy.says(envoy.gets({"asked": "1"}))
    assert envoy.session.unanswered() == []
    assert await envoy.versions_sent() == {"asked": ""}


def test_any_number_of_types_that_envoy_has_not_asked_for_takes_bounded_memory() -> None:
    envoy = _Envoy(DELTA)
    envoy.session.on_upstream_open()
    for number in range(5000):
        envoy.type_url = f"type.googleapis.com/envoy.Type{number}"
        envoy.gets({"unasked": "1"})
    assert len(envoy.session.unanswered()) < 3000


async def test_what_cannot_be_sent_any_more_is_asked_for_again() -> None:
    """The content of responses that are not answered is kept up to a bound."""
    found = await names_on_the_way(DELTA, [(CLUSTER, None), (CLUSTER, b""), (ENDPOINT, b"\xff")])
    assert found == {CLUSTER: None, ENDPOINT: None}
    envoy = _Envoy(DELTA)
    envoy.session.on_upstream_open()
    envoy.says()
    envoy.says(envoy.gets({"one": "1", "two": "1"}))
    envoy.session.on_upstream_end()
    ((_, request),) = envoy.session.on_upstream_open(found)
    versions = discovery_pb2.DeltaDiscoveryRequest.FromString(request).initial_resource_versions
    assert dict(versions) == {"one": "", "two": ""}
