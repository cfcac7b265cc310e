"""Which client gives way when there is no room for another: the one that holds the most.

Clients are known by address, and those of one address by port: on the loopback interface all
have the same. Of the address that holds the most, the port that holds the most loses its oldest
item. So a flood displaces itself; one that uses a port for each query displaces by age, and an
item that is done within milliseconds has gone before its turn comes. All operations take the same
time, however much is held.
"""

from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key")


class Client(NamedTuple):
    """The other end of a socket: of a connection, or the sender of packets."""

    address: str
    port: int


OURSELVES = Client("", 0)
"""This server, when it is asked how it would answer."""


class Shares(Generic[Item]):
    """The items that clients hold, at most so many in all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: dict[Item, Client] = {}
        self._items: dict[Client, OrderedDict[Item, None]] = {}
        self._addresses: _Ranking[str] = _Ranking()
        self._of_address: dict[str, _Ranking[Client]] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def add(self, item: Item, client: Client) -> Item | None:
        """Add an item; returns the one that gives way, if there are too many.

        The caller discards it.
        """
        self._clients[item] = client
        items = self._items.get(client)
        if items is None:
            items = self._items[client] = OrderedDict()
        items[item] = None
        ranking = self._of_address.get(client.address)
        if ranking is None:
            ranking = self._of_address[client.address] = _Ranking()
        ranking.set(client, len(items))
        self._addresses.set(client.address, self._addresses.amount(client.address) + 1)
        if len(self._clients) <= self._most:
            return None
        largest = self._of_address[self._addresses.largest()].largest()
        return next(iter(self._items[largest]))

    def discard(self, item: Item) -> None:
        """Remove an item, if it is there."""
        client = self._clients.pop(item, None)
        if client is None:
            return
        items = self._items[client]
        del items[item]
        if not items:
            del self._items[client]
        ranking = self._of_address[client.address]
        ranking.set(client, len(items))
        left = self._addresses.amount(client.address) - 1
        self._addresses.set(client.address, left)
        if not left:
            del self._of_address[client.address]


class _Ranking(Generic[Key]):
    """Keys by an amount that changes by one at a time."""

    def __init__(self) -> None:
        self._amounts: dict[Key, int] = {}
        self._by_amount: dict[int, OrderedDict[Key, None]] = {}
        self._largest = 0

    def amount(self, key: Key) -> int:
        """Return the amount of a key; 0 for one that is not known."""
        return self._amounts.get(key, 0)

    def largest(self) -> Key:
        """Return the key with the largest amount; of several, the one that has it for longest."""
        return next(iter(self._by_amount[self._largest]))

    def set(self, key: Key, amount: int) -> None:
        """Set the amount of a key to one more or one less; 0 forgets the key."""
        before = self._amounts.pop(key, 0)
        if before:
            same = self._by_amount[before]
            del same[key]
            if not same:
                del self._by_amount[before]
        if amount:
            self._amounts[key] = amount
            self._by_amount.setdefault(amount, OrderedDict())[key] = None
        if amount > self._largest or self._largest not in self._by_amount:
            self._largest = amount  # after one less: that of this key, as amounts differ by one
