"""Whatever happens in whatever order, a client ends up with what the server has.

A client and a server are connected by two queues, one each way, so that messages cross on the
wire. Changes, subscriptions, acceptances, refusals, slow reads, reconnects and the passing of
time are interleaved at random; then everything is let run out. Held at every step and at the end:

- the client's view is the server's, for every type and name it wants;
- nothing is sent twice without cause: a change, a question, or a cluster that warms anew, which
  one may that was on its way when the last stream broke;
- a client that asks for a name that does not exist is sent that, where the dialect and the type
  have a way to;
- when nothing is left to say, both sides fall silent: an ACK is not answered.

Rules that were broken on purpose to see this test fail, each caught within the examples below:
a state-of-the-world ACK whose added names are ignored; a delta request whose subscriptions are
ignored because its nonce is old; versions brought from an older stream that are ignored;
endpoints that do not follow a changed cluster, or that a broken stream lost; removed clusters
that are never taken away, or of which it is forgotten that the client has them; a changed resource
recognised by its name alone; and an ACK that is answered. `XDS_SERVER_EXAMPLES` asks for more
examples than the default.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mesh_protowire import text_of
from xds_server import Resource, content_version
from xds_server import type_urls as types
from xds_server.protocol._type_urls import ABSENCE_NOT_SENT
from xds_state import Core, Make, NewCore, State

CDS, EDS, LDS, RDS = types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE
NAMES = ("a", "b", "c")
TYPES = (CDS, EDS, LDS, RDS)
FULL = {CDS, LDS}
EXAMPLES = int(os.environ.get("XDS_SERVER_EXAMPLES", "300"))

names = st.sampled_from(NAMES)
kinds = st.sampled_from(TYPES)
moves = st.sampled_from([("server_reads",), ("client_reads",)])
steps = st.one_of(  # the more often named, the more often it happens
    moves,
    moves,
    moves,
    moves,
    st.tuples(st.just("change"), kinds, names),
    st.tuples(st.just("change"), kinds, names),
    st.tuples(st.just("delete"), kinds, names),
    st.tuples(st.just("subscribe"), kinds, st.frozensets(names)),
    st.tuples(st.just("subscribe"), st.sampled_from([EDS, RDS]), st.frozensets(names)),
    st.just(("push",)),
    st.just(("push",)),
    st.just(("client_refuses",)),
    st.just(("everything_runs_out",)),
    st.tuples(st.just("time_passes"), st.sampled_from([1.0, 6.0])),
    st.tuples(st.just("reconnect"), st.sampled_from(["kept", "dropped"])),
)
conversations = st.lists(steps, min_size=5, max_size=100)
some_by_name = st.frozensets(st.sampled_from(sorted(FULL)))
drain_times = st.sampled_from([0.0, 9.0])


class Wire:
    """What the client knows of one type, and what it has said of it."""

    def __init__(self) -> None:
        self.wants: frozenset[str] = frozenset()
        self.wildcard = False
        self.subscribed = False
        self.nonce = ""
        self.version = ""
        self.have: dict[str, str] = {}
        self.refused: set[str] = set()  # names whose last word was refused
        self.unanswered: set[str] = set()  # names of which it has heard nothing since it asked


class Conversation:
    """One client, one server, two queues, and what may happen to them."""

    def __init__(
        self,
        core: Core,
        state: State,
        make: Make,
        *,
        delta: bool,
        by_name: frozenset[str],
        drain_time_s: float,
    ) -> None:
        self.core = core
        core.drain_time_s = drain_time_s
        self.state = state
        self.make = make
        self.delta = delta
        self.by_name = by_name  # types of which all could be asked for, but is not
        self.types = {type_url: Wire() for type_url in TYPES}
        self.to_server: deque[dict[str, Any]] = deque()
        self.to_client: deque[Any] = deque()
        self.changes = 0
        self.unpushed = False
        self.lacking: set[str] = set()  # clusters that the client warms without endpoints
        self.warming: set[str] = set()  # clusters that were sent, and their endpoints were not
        self.unconfirmed: set[str] = set()  # endpoints that were sent, and not answered
        self.used: set[str] = set()
        self.carried: set[str] = set()
        self._new_stream()

    def run(self, steps: list[tuple[Any, ...]]) -> None:
        for type_url in TYPES:
            self.change(type_url, "a")
            self.change(type_url, "b")
            self.subscribe(type_url, frozenset("a"))
        for step, *arguments in steps:
            getattr(self, step)(*arguments)
        self.everything_runs_out()
        for type_url, wire in self.types.items():
            if wire.refused:  # What was refused is not sent again, but what replaces it is.
                for name in tuple(self.state.resources.get(type_url, {})):
                    self.changes += 7  # to a content it never had
                    self._set(type_url, name, 100 + self.changes)
        self._run_out()
        self._check(unless_refused=False)

    def _new_stream(self) -> None:
        self.core.reset()
        self.to_server.clear()
        self.to_client.clear()
        self.sent: dict[str, dict[str, str]] = {type_url: {} for type_url in TYPES}
        self.requested: dict[str, set[str]] = {type_url: set() for type_url in TYPES}
        # What the last stream may have lost. Without deltas, everything is sent again.
        self.warming = self.warming | self.unconfirmed if self.delta else set()
        self.unconfirmed = set()
        self.clusters_anew = False
        # Those of the last stream that the client has: in delta it says so.
        before = set() if self.delta else self.carried | self.used
        self.carried = before & self.types[CDS].have.keys()
        # Clusters that had their endpoints, so that routes may use them.
        self.used = set()
        self.drained_from = self.core.now

    # What happens on the server.

    def change(self, type_url: str, name: str) -> None:
        self.changes += 1
        self._set(type_url, name, self.changes % 7)  # at times to what it was before

    def _set(self, type_url: str, name: str, change: int) -> None:
        makers: dict[str, Callable[..., Resource]] = {
            CDS: self.make.cluster,
            EDS: self.make.endpoints,
            # The routes of this one may be asked for, late or not at all.
            LDS: partial(self.make.http_listener, route=name),
            RDS: self.make.route,
        }
        self.state.set(makers[type_url](name, change=change))
        self.unpushed = True

    def delete(self, type_url: str, name: str) -> None:
        self.state.resources.get(type_url, {}).pop(name, None)
        if not self.delta and type_url not in FULL:
            self.sent[type_url].pop(name, None)  # the client isn't notified; it may come as new
        self.unpushed = True

    def push(self) -> None:
        if self.core.push_in_flight:
            return  # A connection has one push at a time.
        self.unpushed = False
        self._send(self.core.push())

    def time_passes(self, seconds: float) -> None:
        self.core.now += seconds
        self._send(self.core.go_on())

    def server_reads(self) -> None:
        if not self.to_server:
            return
        request = self.to_server.popleft()
        type_url = request["type_url"]
        if self.delta:
            self.requested[type_url] |= request.get("subscribe", set()) | {"?"}
            self.requested[type_url] |= request.get("unsubscribe", set())
            if "initial_versions" in request:
                self.sent[type_url] = dict(request["initial_versions"])
                self.requested[type_url].clear()
                if type_url == EDS:
                    self.warming &= request["initial_versions"].keys() | request["subscribe"]
            for name in request.get("unsubscribe", ()):
                self.sent[type_url].pop(name, None)
            replies = self.core.delta(**request)
            if type_url == EDS and self.core.subscription(EDS).is_answered:
                self.unconfirmed = set()
            self._send(replies)
        else:
            if type_url == CDS and (request["error"] is not None or not request["nonce"]):
                self.clusters_anew = True
            known = self.core.stream.subscriptions.get(type_url)
            old = set() if known is None or not request["nonce"] else set(known.names)
            added = set(request["names"]) - old
            if type_url in self.by_name:  # what is given up and wanted again is new again
                self.sent[type_url] = {
                    name: v for name, v in self.sent[type_url].items() if name in request["names"]
                }
            if known is None or not request["nonce"]:
                self.requested[type_url] = {"?"}
            if added or known is None:
                self.requested[type_url] |= added | {"?"}
            self._send(self.core.request(type_url, *request.pop("names"), **without_type(request)))

    def _send(self, replies: list[Any]) -> None:
        """Put responses on the wire, having asked each what it is for."""
        for reply in replies:
            type_url = reply.type_url
            content = versions_in(reply)
            known = self.sent[type_url]
            resend = {name for name in content if known.get(name) == content[name]}
            requested = self.requested[type_url]
            if type_url == EDS and self.clusters_anew:
                self.warming |= content.keys()
            if self.delta or type_url not in FULL:
                unprompted = resend - requested - (self.warming if type_url == EDS else set())
                assert not unprompted or "?" in requested, (type_url, unprompted)
                self.requested[type_url] = set()
            else:
                assert content != known or "?" in requested, (type_url, "nothing new")
                self.requested[type_url] = set()
            if type_url == CDS and self.carried:
                self._check_carried(content.keys())
            if type_url == CDS:
                self.warming |= content.keys() if self.clusters_anew else content.keys() - resend
                self.clusters_anew = False
                self.used -= self.warming
            elif type_url == EDS:
                self.unconfirmed |= self.warming & content.keys()
                self.warming -= content.keys()
                self.used |= content.keys() & self.sent[CDS].keys()
            elif type_url == LDS:
                self.drained_from = self.core.now
            if self.delta:
                gone = set(reply.removed_resources) & known.keys()
                self._check_removal(type_url, gone, requested)
                for name in reply.removed_resources:
                    known.pop(name, None)
                known.update(content)
            elif type_url in FULL:
                self._check_removal(type_url, known.keys() - content.keys(), requested)
                self.sent[type_url] = content
            else:
                known.update(content)
            self.to_client.append(reply)

    def _check_removal(self, type_url: str, gone: set[str], requested: set[str]) -> None:
        """Clusters that had endpoints stay until the listeners sent before have drained."""
        now = self.core.now
        if type_url == CDS:
            stayed = now >= self.drained_from + self.core.drain_time_s
            assert stayed or "?" in requested or not gone & self.used, gone
            self.used -= gone

    def _check_carried(self, sent: AbstractSet[str]) -> None:
        """The first clusters of a stream leave none out that listeners of before may use."""
        subscription = self.core.subscription(CDS)
        wanted = self.carried if subscription.wildcard else self.carried & subscription.names
        self.carried = set()
        stayed = self.core.now >= self.drained_from + self.core.drain_time_s
        assert stayed or wanted <= sent, wanted - sent

    # What happens on the client.

    def subscribe(self, type_url: str, wanted: frozenset[str]) -> None:
        wire = self.types[type_url]
        wildcard = type_url in FULL - self.by_name
        if wildcard:
            wanted = frozenset()
        if not wildcard and not wanted and not wire.subscribed:
            return
        fresh = not wire.subscribed
        added, dropped = wanted - wire.wants, wire.wants - wanted
        wire.unanswered = (wire.unanswered | added) - dropped
        wire.subscribed, wire.wildcard, wire.wants = True, wildcard, wanted
        if type_url == EDS:
            self.lacking -= dropped
        if not wildcard:
            wire.have = {name: v for name, v in wire.have.items() if name in wanted}
        if self.delta:
            if fresh or added or dropped:
                self.to_server.append(
                    {
                        "type_url": type_url,
                        "subscribe": set(added),
                        "unsubscribe": set(dropped),
                        "nonce": wire.nonce,
                    }
                )
        elif fresh or not wildcard:
            self._request(type_url)

    def client_reads(self, *, refuse: bool = False) -> None:
        if not self.to_client:
            return
        reply = self.to_client.popleft()
        wire = self.types[reply.type_url]
        error = "refused" if refuse else None
        said = versions_in(reply).keys() | set(getattr(reply, "removed_resources", ()))
        wire.unanswered -= said
        if not self.delta and reply.type_url in FULL:
            said = set(NAMES)  # what it does not name is gone
        wire.refused = wire.refused | said if error else wire.refused - said
        wire.nonce = reply.nonce
        if not error:
            self._take_over(wire, reply)
        if self.delta:
            self.to_server.append(
                {"type_url": reply.type_url, "nonce": reply.nonce, "error": self.error(error)}
            )
        else:
            wire.version = wire.version if error else reply.version_info
            self._request(reply.type_url, error=error)

    def _take_over(self, wire: Wire, reply: Any) -> None:
        content = versions_in(reply)
        if reply.type_url == CDS:
            # One that it has given up meanwhile it does not take.
            taken = content.keys() if wire.wildcard else content.keys() & wire.wants
            self.lacking |= {name for name in taken if wire.have.get(name) != content[name]}
        elif reply.type_url == EDS:
            self.lacking -= content.keys()
        wanted = {n: v for n, v in content.items() if wire.wildcard or n in wire.wants}
        if self.delta:
            wire.have |= wanted
            for name in reply.removed_resources:
                wire.have.pop(name, None)
        elif reply.type_url in FULL:
            wire.have = wanted
        else:
            wire.have |= wanted

    def _request(self, type_url: str, *, error: str | None = None) -> None:
        wire = self.types[type_url]
        self.to_server.append(
            {
                "type_url": type_url,
                "names": sorted(wire.wants),
                "nonce": wire.nonce,
                "version": wire.version,
                "error": self.error(error),
            }
        )

    def client_refuses(self) -> None:
        self.client_reads(refuse=True)

    def reconnect(self, nonce: str) -> None:
        self._new_stream()
        for type_url, wire in self.types.items():
            if not wire.subscribed:
                continue
            if not (wire.wildcard or wire.wants):
                wire.subscribed = False
                continue
            if self.delta:
                wire.unanswered = set(wire.wants - wire.have.keys())
                self.to_server.append(
                    {
                        "type_url": type_url,
                        "subscribe": set(wire.wants),
                        "initial_versions": dict(wire.have),
                    }
                )
            else:
                wire.nonce = wire.nonce if nonce == "kept" else ""
                self._request(type_url)

    def everything_runs_out(self) -> None:
        self._run_out()
        self._check(unless_refused=True)

    # How it ends.

    def _check(self, *, unless_refused: bool) -> None:
        for type_url, wire in self.types.items():
            doubtful = wire.refused
            if doubtful and not self.delta and type_url in FULL:
                doubtful = set(NAMES)
            existing = self.state.resources.get(type_url, {})
            expected = {
                name: resource.version
                for name, resource in existing.items()
                if wire.subscribed and (wire.wildcard or name in wire.wants)
            }
            have = wire.have
            if not self.delta and type_url not in FULL:
                # This dialect cannot say that a name of these types is gone.
                have = {name: version for name, version in have.items() if name in existing}
            if unless_refused:
                have = {name: v for name, v in have.items() if name not in doubtful}
                expected = {name: v for name, v in expected.items() if name not in doubtful}
            else:
                have = {name: v for name, v in have.items() if name in existing}
            assert have == expected, type_url
            if self.delta and type_url not in ABSENCE_NOT_SENT:
                assert not wire.unanswered, (type_url, "was never sent that it does not exist")
            if type_url == EDS:
                assert not self.lacking & expected.keys(), "a cluster warms for ever"

    def _run_out(self) -> None:
        for _ in range(200):
            if self.to_server:
                self.server_reads()
            elif self.to_client:
                self.client_reads()
            elif self.unpushed and not self.core.push_in_flight:
                self.push()
            elif self.core.stream.next_due_at() is not None:
                self.time_passes(6.0)
            else:
                return
        pytest.fail("the two never fall silent")

    def error(self, message: str | None) -> Any:
        return None if message is None else self.core.error(message)


def versions_in(reply: Any) -> dict[str, str]:
    """Names and versions of the resources of a response."""
    if hasattr(reply, "removed_resources"):
        return {resource.name: resource.version for resource in reply.resources}
    return {
        text_of(resource.value, 1): content_version(resource.value) for resource in reply.resources
    }


def without_type(request: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key != "type_url"}


@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(what_happens=conversations, by_name=some_by_name, drain_time_s=drain_times)
@example(
    what_happens=[
        ("server_reads",),
        ("server_reads",),
        ("server_reads",),
        ("push",),
        ("subscribe", LDS, frozenset(["a", "b"])),
    ],
    by_name=frozenset([LDS]),
    drain_time_s=0.0,
)
@example(  # a client that has everything comes back, and a cluster it uses has gone meanwhile
    what_happens=[
        *[("server_reads",), ("client_reads",)] * 8,
        ("delete", CDS, "a"),
        ("reconnect", "dropped"),
        *[("server_reads",)] * 8,
    ],
    by_name=frozenset(),
    drain_time_s=9.0,
)
def test_every_sotw_conversation_converges(
    new_core: NewCore,
    make: Make,
    what_happens: list[tuple[Any, ...]],
    *,
    by_name: frozenset[str],
    drain_time_s: float,
) -> None:
    core, state = new_core(delta=False)
    options: dict[str, Any] = {"by_name": by_name, "drain_time_s": drain_time_s}
    Conversation(core, state, make, delta=False, **options).run(what_happens)


@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(what_happens=conversations, by_name=some_by_name, drain_time_s=drain_times)
def test_every_delta_conversation_converges(
    new_core: NewCore,
    make: Make,
    what_happens: list[tuple[Any, ...]],
    *,
    by_name: frozenset[str],
    drain_time_s: float,
) -> None:
    core, state = new_core(delta=True)
    options: dict[str, Any] = {"by_name": by_name, "drain_time_s": drain_time_s}
    Conversation(core, state, make, delta=True, **options).run(what_happens)
