"""Adds, inserts, removes and replaces items of lists, as the operations of patches say."""

from collections.abc import Callable, MutableSequence
from typing import TypeVar

from istio_config.kinds.envoy_filter import Operation

_T = TypeVar("_T")


def edit(
    items: MutableSequence[_T],
    operation: Operation,
    value: _T,
    *,
    matches: Callable[[_T], bool] | None = None,
) -> bool:
    """Change a list by an operation other than MERGE; tell whether it changed.

    matches: tells the items beside which to insert, or which to remove or replace. None: none is
    named, and BEFORE is first, AFTER is last.
    """
    if operation is Operation.ADD or (operation is Operation.INSERT_AFTER and matches is None):
        items.append(value)
        return True
    found = [index for index, each in enumerate(items) if matches is None or matches(each)]
    if operation is Operation.REMOVE:
        for index in reversed(found):
            del items[index]
        return bool(found)
    if matches is not None and not found:
        return False
    if operation is Operation.INSERT_BEFORE and matches is not None:
        items.insert(found[0], value)
    elif operation is Operation.INSERT_AFTER:
        items.insert(found[0] + 1, value)
    elif operation is Operation.REPLACE:
        if not found:
            return False
        del items[found[0]]
        items.insert(found[0], value)
    else:
        items.insert(0, value)
    return True
