"""The key sets that were fetched, within bounds in bytes for each namespace and for all."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from mesh_model import KeySource

MOST_BYTES_OF_A_NAMESPACE = 4 * 1024 * 1024
MOST_BYTES_IN_ALL = 64 * 1024 * 1024


class TooMuchKept(Exception):
    """A key set has no room beside those that are kept; the message says beside which."""


class KeptSets(Mapping[KeySource, str]):
    """Key sets by where they come from, each counted for one of the namespaces that want it."""

    def __init__(
        self,
        *,
        of_a_namespace: int = MOST_BYTES_OF_A_NAMESPACE,
        in_all: int = MOST_BYTES_IN_ALL,
    ) -> None:
        self._of_a_namespace = of_a_namespace
        self._in_all = in_all
        self._sets: dict[KeySource, str] = {}
        self._counted_for: dict[KeySource, str] = {}
        self._bytes: Counter[str] = Counter()

    def __getitem__(self, source: KeySource) -> str:
        return self._sets[source]

    def __iter__(self) -> Iterator[KeySource]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)

    def keep(self, source: KeySource, text: str, namespaces: Collection[str]) -> None:
        """Keep a set, in the place of an older one; raises TooMuchKept, and the older one stays.

        It counts for the namespace that has the most room: one of others' that also wants it can't
        take theirs.
        """
        older, older_for = self._sets.get(source, ""), self._counted_for.get(source, "")
        self._bytes[older_for] -= len(older)
        namespace = min(sorted(namespaces), key=self._bytes.__getitem__, default="")
        beside, in_all = self._bytes[namespace], self._bytes.total()
        room = min(self._of_a_namespace - beside, self._in_all - in_all)
        if len(text) > room:
            self._bytes[older_for] += len(older)
            raise TooMuchKept(
                f"{len(text)} bytes are too many beside the {beside} of other key sets of "
                f"namespace {namespace}, and {in_all} of all: {self._of_a_namespace} of a "
                f"namespace and {self._in_all} in all are kept"
            )
        self._sets[source] = text
        self._counted_for[source] = namespace
        self._bytes[namespace] += len(text)

    def drop(self, source: KeySource) -> None:
        """Forget a set, if it is there."""
        if (text := self._sets.pop(source, None)) is not None:
            self._bytes[self._counted_for.pop(source)] -= len(text)
