"""The hosts that a change of DestinationRules is about; those of all others stay as they are."""

from collections.abc import Iterable
from dataclasses import dataclass

from istio_config.edits import edits
from mesh_model import DestinationRules


@dataclass(frozen=True, slots=True)
class RuleChange:
    """Host names, and the ends of those that wildcards stand for."""

    hosts: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()

    def touches(self, host: str) -> bool:
        """Return whether a host may have another rule than before."""
        return host in self.hosts or any(host.endswith(each) for each in self.suffixes)

    def touched(self, services: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return those of some services, by namespace and host, that may have another rule."""
        if self.suffixes:
            return [each for each in services if self.touches(each[1])]
        hosts = self.hosts
        return [each for each in services if each[1] in hosts] if hosts else []


def rule_change(old: DestinationRules, new: DestinationRules) -> RuleChange:
    """Compare the rules of two models; those that are the same object are the same."""
    if old is new:
        return RuleChange()
    changed = edits(old.rules, new.rules)
    hosts = {each.host for each in (*changed.gone, *changed.come)}
    return RuleChange(
        frozenset(each for each in hosts if not each.startswith("*")),
        tuple(each[1:] for each in hosts if each.startswith("*")),
    )


class RuleChanges:
    """The changes that led to the rules of one model, by the rules that were there before."""

    def __init__(self, new: DestinationRules) -> None:
        self._new = new
        self._since: dict[int, tuple[DestinationRules, RuleChange]] = {}

    def since(self, old: DestinationRules) -> RuleChange:
        """Return the change from the rules of an earlier model."""
        known = self._since.get(id(old))
        if known is None:
            known = self._since[id(old)] = old, rule_change(old, self._new)
        return known[1]
