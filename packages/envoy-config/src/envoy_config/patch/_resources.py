"""Applies patches to one resource: those that fail are left out, and the others go on.

All are applied first, and the outcome is looked at once. Only if Envoy would refuse it, they are
applied once more, one by one, to find those that are to blame.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from envoy_config.patch._failures import Failure, PatchError
from envoy_config.plan.policies._patches import Patch

_M = TypeVar("_M", bound=Message)


class Sort(NamedTuple, Generic[_M]):
    """The ways of one sort of resources.

    apply: applies a patch, and tells whether it was for something there; None removes the resource.
    mistakes: yields what Envoy would refuse.
    """

    apply: Callable[[_M, Patch], bool | None]
    mistakes: Callable[[_M], Iterator[str]]
    name_of: Callable[[_M], str]


class Outcome(NamedTuple, Generic[_M]):
    """A resource after its patches.

    message: None if it was removed; the very one that was given if nothing changed it.
    """

    message: _M | None
    failures: tuple[Failure, ...] = ()


def patched(message: _M, patches: Iterable[Patch], sort: Sort[_M]) -> Outcome[_M]:
    """Apply patches in their order to a resource."""
    ordered = tuple(patches)
    known: frozenset[str] = frozenset()
    outcome = _applied(message, ordered, sort, None)
    if outcome.message is None or outcome.message is message:
        return outcome
    if any(True for _ in sort.mistakes(outcome.message)):
        known = frozenset(sort.mistakes(message))
        if not known.issuperset(sort.mistakes(outcome.message)):
            return _applied(message, ordered, sort, known)
    return outcome


def _applied(
    message: _M, patches: tuple[Patch, ...], sort: Sort[_M], known: frozenset[str] | None
) -> Outcome[_M]:
    """Apply patches; known: mistakes that were there before, if each patch is to be looked at."""
    name = sort.name_of(message)
    current, failures = message, []
    for patch in patches:
        trial = type(message)()
        trial.CopyFrom(current)
        try:
            matched = sort.apply(trial, patch)
        except PatchError as error:
            failures.append(Failure(patch=patch, resource=name, reason=f"the value {error}"))
            continue
        if matched is None:
            return Outcome(None, tuple(failures))
        if not matched:
            continue
        wrong = _new_mistake(trial, sort, name, known)
        if wrong is None:
            current = trial
        else:
            failures.append(Failure(patch=patch, resource=name, reason=wrong))
    return Outcome(current, tuple(failures))


def _new_mistake(trial: _M, sort: Sort[_M], name: str, known: frozenset[str] | None) -> str | None:
    if sort.name_of(trial) != name:
        # Others refer to the resource by its name.
        return f'the name would be "{sort.name_of(trial)}"'
    if known is None:
        return None
    return next((each for each in sort.mistakes(trial) if each not in known), None)
