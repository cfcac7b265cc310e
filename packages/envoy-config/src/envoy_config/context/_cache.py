"""The values that push contexts keep, from one to the next: the one owner of what an edit keeps.

A value is computed from a key and from the context's model. The next context has another model, and
says for each of its caches what the change between the two models leaves (`ModelChange`):

- a value that the change does not touch holds, and is taken over (`Cache.adopt`);
- a value that it may touch is remembered, and renewed by what differs (`Cache.remember`,
  `Cache.renew`);
- all others are gone, as are those that no client has asked for since.

What is kept is what a context with nothing before would make: tests draw edits, and compare both.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from envoy_config.changes._model_change import ModelChange, ServiceKey
from mesh_model import Rule, Service

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

MOST_VALUES = 50_000
"""Clients choose the names that they ask for: a bound on what that makes the server remember."""

MOST_NAMES = 2_000_000
"""The same for answers to sets of names, of which a client may ask for any number: so many names in
all of them. A thousand scopes of 2 000 clusters each, at some 50 bytes a name."""

MOST_RESOURCES = 500_000
"""Of resources that answers hold as well, and of which each answer may have tens of thousands."""

_MOST_VARIANTS = 500


def _one(_key: object) -> int:
    return 1


class Cache(Generic[_K, _V]):
    """Values by key, of two generations: those that hold in a context, and earlier ones.

    Either generation is bounded: its keys weigh at most `most`. A value too many empties the cache;
    of those taken over from another the oldest go.

    What makes a value is given with the key: a cache that kept it would refer to its owner, and
    replaced push contexts would wait for the garbage collector.
    """

    def __init__(self, *, most: int = MOST_VALUES, weigh: Callable[[_K], int] = _one) -> None:
        """weigh: returns what a key counts for, such as how many names it has."""
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._values: dict[_K, _V] = {}
        self._earlier: dict[_K, _V] = {}

    def get(self, key: _K, make: Callable[[_K], _V]) -> _V:
        """Return the value of a key, computed when it is first asked for."""
        if key not in self._values:
            value = make(key)
            self.put(key, value)
            return value
        return self._values[key]

    def renew(self, key: _K, make: Callable[[_K, _V | None], _V]) -> _V:
        """Return the value of a key, computed from the earlier one where there is one."""
        if key not in self._values:
            value = make(key, self.pop_earlier(key))
            self.put(key, value)
            return value
        return self._values[key]

    def peek(self, key: _K) -> _V | None:
        """Return the value of a key, if there is one."""
        return self._values.get(key)

    def pop_earlier(self, key: _K) -> _V | None:
        """Return the earlier value of a key, if there is one, and forget it."""
        return self._earlier.pop(key, None)

    def put(self, key: _K, value: _V) -> None:
        """Keep the value of a key, instead of the one that it has; none that is too heavy."""
        if key not in self._values:
            weight = self._weigh(key)
            if weight > self._most:
                return
            if self._weight + weight > self._most:
                self._values.clear()
                self._weight = 0
            self._weight += weight
        self._values[key] = value

    def adopt(
        self,
        before: "Cache[_K, _V]",
        *,
        but: Iterable[_K] = (),
        revise: Callable[[_K, _V], _V | None] | None = None,
    ) -> None:
        """Take over the values of another cache that hold here.

        but: the keys of those that do not; as few as may be, all others are copied at once.
        revise: returns a value as it is now, or None if it does not hold.
        """
        if revise is None:
            self._values |= before._values
            for key in but:
                self._values.pop(key, None)
        else:
            revised = ((key, revise(key, value)) for key, value in before._values.items())
            self._values |= {key: value for key, value in revised if value is not None}
        self._weight = self._bound(self._values)

    def remember(
        self, before: "Cache[_K, _V]", *, where: Callable[[_K], bool] | None = None
    ) -> None:
        """Keep values of another cache as the earlier ones.

        where: tells whose are kept, be they earlier ones of the other or its own. Without it those
        are kept that the other was asked for; if it was asked for none, its earlier ones.
        """
        if where is None:
            self._earlier = dict(before._values or before._earlier)
        else:
            self._earlier = {key: value for key, value in before.known() if where(key)}
        self._bound(self._earlier)

    def known(self) -> Iterable[tuple[_K, _V]]:
        """Return the keys and values of both generations, from the oldest to the newest."""
        return chain(self._earlier.items(), self._values.items())

    def __contains__(self, key: object) -> bool:
        """Return whether the value of a key holds."""
        return key in self._values

    def __iter__(self) -> Iterator[_K]:
        """Return the keys of the values that hold."""
        return iter(self._values)

    def items(self) -> Iterable[tuple[_K, _V]]:
        """Return the keys and the values that hold."""
        return self._values.items()

    def values(self) -> Iterable[_V]:
        """Return the values that hold."""
        return self._values.values()

    def _bound(self, values: dict[_K, _V]) -> int:
        """Drop the oldest values until the others may stay; return the weight of these."""
        weight = len(values) if self._weigh is _one else sum(map(self._weigh, values))
        if weight > self._most:
            for key in list(values):
                weight -= self._weigh(key)
                del values[key]
                if weight <= self._most:
                    break
        return weight


class ServiceCache(Generic[_V]):
    """Values of services, each in variants: by rule, client, and whatever else they depend on.

    They are forgotten by service, and by rule once a rule is gone.
    """

    def __init__(self) -> None:
        self._values = Cache[ServiceKey, dict[tuple[object, ...], _V]]()

    def get(
        self,
        service: Service,
        rule: Rule | None,
        variant: tuple[object, ...],
        make: Callable[[], _V],
    ) -> _V:
        """Return a value of a service, computed when it is first asked for."""
        values = self._values.get((service.namespace, service.host), lambda _: {})
        key = (rule, *variant)
        if key not in values:
            if len(values) >= _MOST_VARIANTS:
                values.clear()
            values[key] = make()
        return values[key]

    def adopt(
        self, before: "ServiceCache[_V]", change: ModelChange, *, but: Iterable[ServiceKey]
    ) -> None:
        """Take over the values of services but those of `but`, and of rules that are gone."""
        self._values.adopt(before._values, but=but)
        for service in change.rule_change.touched(self._values):
            gone = change.gone_rules
            left = {
                key: value
                for key, value in (self._values.peek(service) or {}).items()
                if id(key[0]) not in gone
            }
            self._values.put(service, left)
