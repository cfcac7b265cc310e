"""One stream of Envoy across the upstream streams that serve it, one after the other.

The session knows what Envoy subscribed to, what it has and what it has not answered yet, so that
the next upstream stream can be sent. Control planes number nonces from 1 on each stream; a nonce of
an earlier upstream stream never reaches a later one. With a single upstream stream, every message
passes as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mesh_protowire import WireError, bytes_field, string_field, without
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD, Dialect, Request, Response
from xds_proxy.protocol._resources import names_of
from xds_proxy.session._held import WHOLE_STATE, Contents, Held
from xds_proxy.session._outcomes import Answered, Requested, TooMuchError
from xds_proxy.session._refused_resources import refused_resources
from xds_proxy.session._requested_type import OnTheWay, RequestedType
from xds_proxy.session._subscription import DeltaSubscription, SotwSubscription, held_versions
from xds_proxy.session._unanswered import Sent, Unanswered
from xds_proxy.status._acks_and_nacks import DeliveryStatus

_MAX_TYPES = 1024
_SOTW_VERSION = frozenset({STATE_OF_THE_WORLD.request_version})
_NOTHING: OnTheWay = {}


class Session:
    """One stream of Envoy; synchronous, does no I/O.

    dialect: of both sides. delivery_status: follows what is sent and answered.
    now: the Unix time. max_subscription_bytes: with more, `request` refuses to go on.
    max_unanswered_bytes: of the responses whose content is kept until they are answered.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        delivery_status: DeliveryStatus,
        now: Callable[[], float],
        max_subscription_bytes: int,
        max_unanswered_bytes: int,
    ) -> None:
        self.dialect = dialect
        self.delivery_status = delivery_status
        self.node = b""
        """Envoy's serialised node; empty before its first request."""
        self.generation = 0
        """How many upstream streams there were so far, with the one that is open."""
        self.is_open = False
        """Whether there is an upstream stream."""
        self._now = now
        self._max_subscription_bytes = max_subscription_bytes
        self._types: dict[str, RequestedType] = {}
        self._unanswered = Unanswered(max_unanswered_bytes)
        self._subscription_bytes = 0

    def is_subscribed(self, type_url: str) -> bool:
        """Return whether Envoy has asked for resources of a type."""
        return type_url in self._types

    # From Envoy

    def request(self, raw: bytes) -> Requested:
        """Envoy sent a request.

        Raises:
            WireError: it is no discovery request.
            TooMuchError: it subscribes to more than the relay keeps.
        """
        request = self.dialect.read_request(raw)
        type_url = request.type_url
        if request.node:
            self.node = request.node
        known = self._types.get(type_url)
        if known is None:
            known = self._new_type(type_url, raw, request)
        self._note_subscription(known, raw, request)
        answered = self._unanswered.on_answer(type_url, request.nonce) if request.nonce else []
        if self.dialect is DELTA:
            # Each has an answer of its own, but for those that came before Envoy asked for any.
            answered = answered[-1:]
        upstream = self._upstream_request(known, raw, request, answered)
        if answered:
            known.current = answered[-1]
        return Requested(
            type_url=type_url,
            names_versions=request.names_versions,
            upstream=upstream,
            answered=[
                self._answer(sent, raw, request.error if sent is answered[-1] else None)
                for sent in answered
            ],
        )

    def learn(self, answered: Answered, contents: Contents) -> Mapping[str, str]:
        """Note what was in an answered response. Returns the refused resources and their reasons.

        Answered responses of a type are learned of in their order.
        """
        type_url, at = answered.sent.type_url, self._now()
        known = self._types[type_url]
        versions, removed = contents
        reasons: Mapping[str, str] = {}
        if answered.error is not None:
            reasons = refused_resources(versions, answered.error)
            is_part = answered.sent.generation < 0 and type_url not in WHOLE_STATE
            if is_part and len(versions) > 1:
                return {}  # smaller parts will show
            if not self._comes_again(answered.sent):
                self.delivery_status.on_resource_refusals(type_url, reasons, versions, at=at)
            if type_url not in WHOLE_STATE or not reasons:
                # Envoy has got to some of the others, or to none, and does not say.
                if self.dialect is DELTA:
                    others = {name: each for name, each in versions.items() if name not in reasons}
                    known.held.doubt(others, at=at)
                    if is_part:
                        # It was refused by itself, so that what Envoy has is what it had before.
                        known.held.refused_alone(versions)
                return reasons
            versions = {name: each for name, each in versions.items() if name not in reasons}
        self._take(known, type_url, versions, removed, refused=reasons, at=at)
        return reasons

    # From upstream

    def on_upstream_open(self, on_the_way: OnTheWay = _NOTHING) -> list[tuple[str, bytes]]:
        """There is a new upstream stream.

        Returns the requests that subscribe anew, each with its type URL, in Envoy's order.

        In delta they name what Envoy has with its versions, one resource without its version: a
        control plane that has nothing new to say would otherwise look like one that hangs.

        on_the_way: what is in the responses that Envoy has not answered. It is named without a
        version, or it would stay with Envoy if the control plane has another or none by now.
        """
        self.generation += 1
        self.is_open = True
        if self.dialect is DELTA and self.generation > 1:
            self.delivery_status.refusals_come_again()
        requests: list[tuple[str, bytes]] = []
        answer_is_sure = False
        for type_url, known in self._types.items():
            held = known.versions(on_the_way)
            if held and not answer_is_sure:
                held = {**held, next(iter(held)): ""}
                answer_is_sure = True
            if (again := known.subscription.again(held)) is not None:
                if self.dialect is not DELTA and type_url in on_the_way:
                    again = without(again, _SOTW_VERSION)
                requests.append((type_url, again))
        if requests and self.node:
            type_url, first = requests[0]
            requests[0] = type_url, self._with_node(first)
        return requests

    def on_upstream_end(self) -> None:
        """The upstream stream has ended."""
        self.is_open = False

    def response(self, raw: bytes, peeked: Response, *, generation: int, shown: bytes) -> bytes:
        """A response goes to Envoy. Returns it as Envoy gets it.

        raw: as the control plane sent it. shown: as the agent wants Envoy to see it; usually the
        same object. generation: of the upstream stream that sent it; negative for a part.
        """
        known = self._types.get(peeked.type_url)
        if known is not None and isinstance(known.subscription, DeltaSubscription):
            known.subscription.on_answer()
        nonce = self._distinct_nonce(known, peeked, generation)
        if nonce:
            self._unanswered.add(Sent(raw, peeked, generation=generation, shown=nonce))
        if generation >= 0:
            self.delivery_status.on_response(
                peeked.type_url,
                peeked.version,
                at=self._now(),
                control_plane=peeked.control_plane,
            )
        if nonce is peeked.nonce:
            return shown
        # The last occurrence of a field is the one that counts.
        return shown + string_field(self.dialect.response_nonce, nonce)

    def unanswered(self) -> list[Sent]:
        """Return the responses that Envoy has not answered, of each type the oldest first."""
        return self._unanswered.all()

    def unanswered_of(self, type_url: str) -> tuple[Sent, ...]:
        """Return the responses of a type that Envoy has not answered, the oldest first."""
        return tuple(self._unanswered.of_type(type_url))

    def newest_sent(self, type_url: str) -> Sent | None:
        """Return the newest response of a type that Envoy has not answered."""
        unanswered = self._unanswered.of_type(type_url)
        return unanswered[-1] if unanswered else None

    def refusal(self, peeked: Response, error: str, *, generation: int) -> bytes | None:
        """A response is refused in Envoy's place, which does not get it.

        Returns the NACK; None if the stream that it came from has ended.
        """
        at = self._now()
        self.delivery_status.on_response(
            peeked.type_url, peeked.version, at=at, control_plane=peeked.control_plane
        )
        self.delivery_status.on_nack(peeked.type_url, peeked.version, error, at=at)
        if not self.is_open or generation != self.generation:
            return None
        known = self._types.get(peeked.type_url)
        if known is None:
            return self.dialect.write_request(
                type_url=peeked.type_url, nonce=peeked.nonce, error=error
            )
        return known.subscription.refusal(peeked.nonce, error)

    # What Envoy asks for and has

    def asked_for(self, type_url: str) -> frozenset[str] | None:
        """Return the names that Envoy asks for of a type; None for all, empty for none."""
        known = self._types.get(type_url)
        return frozenset() if known is None else known.subscription.asked_for()

    def worth_keeping(self, type_url: str) -> frozenset[str] | None:
        """Return the names of the resources of a type that Envoy has use for; None for all.

        In delta these are what it has, in state of the world what it asks for.
        """
        known = self._types.get(type_url)
        if self.dialect is DELTA and known is not None:
            return known.held.names
        return self.asked_for(type_url)

    def may_have(self, type_url: str, name: str) -> bool:
        """Return whether Envoy may have a version of a resource, or get one not answered yet.

        Raises WireError.
        """
        known = self._types.get(type_url)
        if known is None or name in known.held:
            return True
        if known.had_some and self.dialect is not DELTA:
            return True
        return any(
            name == each
            for sent in self._unanswered.of_type(type_url)
            if sent.response is not None
            for each, _ in names_of(self.dialect, sent.response)
        )

    def held(self) -> Mapping[str, Mapping[str, Held]]:
        """Return the resources that Envoy has, by type URL and name."""
        held = {}
        for type_url, known in self._types.items():
            if isinstance(known.subscription, SotwSubscription):
                known.held.keep(known.subscription.names())
            held[type_url] = known.held.snapshot()
        return held

    def requested(self) -> Mapping[str, frozenset[str]]:
        """Return the names that Envoy asks for, by type URL."""
        return {type_url: known.subscription.names() for type_url, known in self._types.items()}

    def _note_subscription(self, known: RequestedType, raw: bytes, request: Request) -> None:
        asked = known.subscription
        before = asked.size
        if isinstance(asked, DeltaSubscription):
            known.held.discard(asked.find_unsubscribed(raw, request))
            had_all = asked.wildcard
            asked.on_request(raw, request)
            if had_all and not asked.wildcard:
                known.held.filter(asked.subscribes_to)
        else:
            asked.on_request(raw, request)
        self._subscription_bytes += asked.size - before
        if self._subscription_bytes > self._max_subscription_bytes:
            raise TooMuchError(
                "the subscriptions of one stream take more than"
                f" {self._max_subscription_bytes} bytes"
            )

    def _new_type(self, type_url: str, raw: bytes, request: Request) -> RequestedType:
        if len(self._types) >= _MAX_TYPES:
            raise TooMuchError(f"one stream asks for more than {_MAX_TYPES} types of resources")
        known = self._types[type_url] = RequestedType(self.dialect, type_url)
        self.delivery_status.on_request(type_url, names_versions=request.names_versions)
        known.had_some = request.names_versions
        if self.dialect is DELTA and request.names_versions:
            known.held.add(held_versions(raw, request), at=self._now())
        return known

    def _answer(self, sent: Sent, raw: bytes, error: str | None) -> Answered:
        at = self._now()
        if sent.generation < 0:
            pass  # the whole response was refused
        elif error is None:
            self.delivery_status.on_ack(sent.type_url, sent.version, at=at)
        elif not self._comes_again(sent):
            self.delivery_status.on_nack(sent.type_url, sent.version, error, at=at)
        return Answered(sent=sent, error=error, request=raw)

    def _comes_again(self, sent: Sent) -> bool:
        """Return whether the upstream stream sends again what Envoy refuses of an earlier one's.

        It was not sent that Envoy has it. A resource that is gone meanwhile does not come again,
        and in delta its removal does not either, so the refusal would be in force for ever.
        """
        return self.dialect is DELTA and self.is_open and abs(sent.generation) != self.generation

    def _take(
        self,
        known: RequestedType,
        type_url: str,
        versions: Mapping[str, str],
        removed: tuple[str, ...],
        *,
        refused: Mapping[str, str],
        at: float,
    ) -> None:
        asked = known.subscription
        if isinstance(asked, DeltaSubscription):
            known.held.discard(removed)
            if not asked.wildcard:
                versions = {name: v for name, v in versions.items() if asked.subscribes_to(name)}
            known.held.add(versions, at=at)
            self.delivery_status.on_resource_acceptance(type_url, (*versions, *removed))
        elif type_url in WHOLE_STATE:
            known.held.replace(versions, besides=refused, at=at)
            self.delivery_status.on_resource_acceptance(type_url, None, besides=refused)
        else:
            known.held.add(versions, at=at)
            if isinstance(asked, SotwSubscription):
                known.held.prune(asked.names)
            self.delivery_status.on_resource_acceptance(type_url, (*versions, ""))

    def _upstream_request(
        self, known: RequestedType, raw: bytes, request: Request, answered: list[Sent]
    ) -> bytes | None:
        """Return what the upstream stream gets of a request."""
        if not self.is_open:
            return None
        meant = answered[-1] if answered else self._find_repeated(known, request.nonce)
        if meant is None:
            # Of a nonce that is not known, one stream alone can be the source.
            stale = bool(request.nonce) and self.generation > 1
        else:
            stale = meant.generation != self.generation
        if stale:
            change = known.subscription.change(raw, request)
            if change is not None:
                known.subscription.on_forward(raw)
            return change
        known.subscription.on_forward(raw)
        if meant is None or meant.nonce == meant.shown:
            return raw
        return raw + bytes_field(self.dialect.request_nonce, meant.nonce.encode())

    def _find_repeated(self, known: RequestedType, nonce: str) -> Sent | None:
        """Return the answered response whose nonce a changed subscription repeats."""
        current = known.current
        return current if current is not None and nonce and current.shown == nonce else None

    def _distinct_nonce(
        self, known: RequestedType | None, peeked: Response, generation: int
    ) -> str:
        """Return a nonce that Envoy cannot mean an earlier upstream stream's response by.

        In delta, each answer has its response's nonce, and the order tells which one is meant. In
        state of the world, Envoy repeats nonces and may pass over responses.
        """
        if self.dialect is DELTA or not peeked.nonce:
            return peeked.nonce
        unanswered = self._unanswered.of_type(peeked.type_url)
        taken = {sent.shown for sent in unanswered if sent.generation != generation}
        current = known.current if known is not None else None
        if current is not None and current.generation != generation:
            taken.add(current.shown)
        nonce, number = peeked.nonce, generation
        while nonce in taken:
            nonce = f"{number}~{peeked.nonce}"
            number += 1
        return nonce

    def _with_node(self, request: bytes) -> bytes:
        """Return a request with Envoy's node, as the first one on a stream has it."""
        try:
            if self.dialect.read_request(request).node == self.node:
                return request
        except WireError:
            return request
        number = self.dialect.request_node
        return bytes_field(number, self.node) + without(request, frozenset({number}))
