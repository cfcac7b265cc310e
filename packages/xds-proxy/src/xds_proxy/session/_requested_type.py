"""One type that Envoy has asked for: its subscription, and what Envoy has of it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from xds_proxy.protocol._dialect import Dialect
from xds_proxy.session._held import HeldResources
from xds_proxy.session._subscription import DeltaSubscription, Subscription, subscription
from xds_proxy.session._unanswered import Sent

OnTheWay = Mapping[str, AbstractSet[str] | None]
"""By type URL, the resources that a response brings or removes; None if they are not known."""


class RequestedType:
    """One type on Envoy's stream."""

    __slots__ = ("current", "had_some", "held", "subscription", "type_url")

    def __init__(self, dialect: Dialect, type_url: str) -> None:
        self.type_url = type_url
        self.subscription: Subscription = subscription(dialect, type_url)
        self.held = HeldResources()
        self.had_some = False
        """Envoy had some of it before this stream; which, delta alone says."""
        self.current: Sent | None = None
        """The response that Envoy answered last: state of the world repeats its nonce."""

    def versions(self, on_the_way: OnTheWay) -> Mapping[str, str]:
        """Return what Envoy has, as delta says on a new stream; empty in state of the world.

        The version is empty where Envoy may have another by the time that the stream is answered.
        """
        asked = self.subscription
        if not isinstance(asked, DeltaSubscription):
            return {}
        held = self.held.versions
        if self.type_url not in on_the_way:
            return held
        asked.on_answer()
        coming = on_the_way[self.type_url]
        if coming is None:
            return dict.fromkeys(held, "")
        return {**held, **{name: "" for name in coming if asked.subscribes_to(name)}}
