"""Secrets for tests: set them, remove them, break the source."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from mesh_sds._secrets import TlsCertificate, TrustBundle


class FakeSecrets:
    """A `SecretSource` that holds what it is given."""

    def __init__(self) -> None:
        self._secrets: dict[str, TlsCertificate | TrustBundle] = {}
        self._subscribers: set[_Subscription] = set()
        self.subscriptions = 0

    def get(self, name: str) -> TlsCertificate | TrustBundle | None:
        """Return what was last set."""
        return self._secrets.get(name)

    def set(self, **secrets: TlsCertificate | TrustBundle) -> None:
        """Add or replace secrets, as one change."""
        self._secrets.update(secrets)
        self._tell(secrets.keys())

    def remove(self, name: str) -> None:
        """Take a secret away."""
        self._secrets.pop(name, None)
        self._tell({name})

    def break_off(self, error: Exception) -> None:
        """Make everybody's `changes` raise."""
        for subscription in self._subscribers:
            subscription.error = error
            subscription.news.set()

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        """Yield the names of what changed, first of all that there is."""
        subscription = _Subscription(frozenset(self._secrets))
        self._subscribers.add(subscription)
        self.subscriptions += 1
        try:
            while True:
                await subscription.news.wait()
                subscription.news.clear()
                if subscription.error is not None:
                    raise subscription.error
                names, subscription.names = subscription.names, frozenset()
                yield names
        finally:
            self._subscribers.discard(subscription)

    def _tell(self, names: Iterable[str]) -> None:
        for subscription in self._subscribers:
            subscription.names = subscription.names.union(names)
            subscription.news.set()


class _Subscription:
    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.error: Exception | None = None
        self.news = asyncio.Event()
        if names:
            self.news.set()
