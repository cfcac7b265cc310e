"""The outbound listeners of captured proxies that were made, by their places.

Plans keep a listener that stays as it is as the same object, so that most are found without being
compared, and none is hashed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from envoy_config.plan._proxy_settings import ProxySettings
from envoy_config.plan.capture._listeners import CapturedListener
from xds_server import Resource


class OfListener(NamedTuple):
    """All that an outbound listener's resource depends on, but for the mesh's own settings."""

    listener: CapturedListener
    settings: ProxySettings


_Where = tuple[str, int]
_Made = tuple[OfListener, Resource]


class MadeListeners:
    """The resources of listeners, of this push context and of the one before."""

    def __init__(self) -> None:
        self._here: dict[_Where, list[_Made]] = {}
        self._before: Mapping[_Where, list[_Made]] = {}

    def get(self, key: OfListener, make: Callable[[OfListener], Resource]) -> Resource:
        """Return the resource of a listener, also if the context before made it."""
        where = key.listener.bind, key.listener.port
        here = self._here.setdefault(where, [])
        found = _found(key, here)
        if found is None:
            found = _found(key, self._before.get(where, ())) or make(key)
            here.append((key, found))
        return found

    def adopt(self, before: "MadeListeners", *, whole: bool) -> None:
        """Take over what is asked for; whole: all of it at once."""
        self._before = before._here
        if whole:
            self._here = dict(before._here)


def _found(key: OfListener, among: Iterable[_Made]) -> Resource | None:
    for known, resource in among:
        if known == key:  # of two that are one object, nothing more is compared
            return resource
    return None
