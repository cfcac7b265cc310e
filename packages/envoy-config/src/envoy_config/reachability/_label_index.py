"""Finds whether anything has certain labels, at no cost of how many things there are."""

from collections.abc import Iterable, Mapping

from mesh_model import Labels


class LabelIndex:
    """Labels of workloads or endpoints, by each key with its value."""

    def __init__(self, known: Iterable[Labels]) -> None:
        self._having: dict[tuple[str, str], set[int]] = {}
        self._count = 0
        for number, labels in enumerate(dict.fromkeys(known)):
            self._count += 1
            for pair in labels:
                self._having.setdefault(pair, set()).add(number)

    def __bool__(self) -> bool:
        """Return whether there are any, with labels or without."""
        return self._count > 0

    def has_any(self, wanted: Mapping[str, str]) -> bool:
        """Return whether one has all of these labels."""
        having = [self._having.get(pair, set()) for pair in wanted.items()]
        return bool(set.intersection(*having)) if having else bool(self)
