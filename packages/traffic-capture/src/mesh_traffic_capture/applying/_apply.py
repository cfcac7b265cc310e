"""Rules into the kernel and out of it: look, compare, change, under one lock."""

from __future__ import annotations

from contextlib import contextmanager

from mesh_traffic_capture._backend import Backend
from mesh_traffic_capture._errors import CaptureFailed
from mesh_traffic_capture._value import value
from mesh_traffic_capture.applying._observe import (
    IPTABLES,
    NO_NFT,
    Observed,
    observe_capture,
    require,
)
from mesh_traffic_capture.applying._plan import Step, is_applied, steps_to_apply, steps_to_clean
from mesh_traffic_capture.config import CaptureConfig
from mesh_traffic_capture.kernel import only_one, run_all, unmapped
from mesh_traffic_capture.rules import build_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@value
class Applied:
    """All that an apply did, or would do."""

    changed: bool
    """Whether anything was, or would be, changed."""
    backend: Backend
    reason: str
    """Why that backend."""
    commands: tuple[str, ...]
    """All changes in order, as a shell would take them."""
    notes: tuple[str, ...]


@value
class Cleaned:
    """All that a clean did, or would do."""

    changed: bool
    found: tuple[str, ...]
    """Whose rules there were, and in which backend."""
    commands: tuple[str, ...]
    notes: tuple[str, ...]
    """What can't be removed, a sentence each."""


def apply_capture(
    config: CaptureConfig,
    *,
    backend: Backend | None = None,
    dry_run: bool = False,
    lock_timeout_s: float = 30.0,
) -> Applied:
    """Have exactly the rules of a configuration in this network namespace.

    Rules of ours and of Istio's tools that are there, in any backend, give way; without a moment in
    which there are none. Raises `InvalidCapture`, `LockTimedOut` or `CaptureFailed`.
    """
    rules = build_rules(config)
    unmatched = tuple(_unmatched(config))
    with _locked(dry_run=dry_run, timeout_s=lock_timeout_s) as lock:
        observed = observe_capture()
        chosen, reason = _choose(backend, observed)
        notes = [*config.notes(), *unmatched, *observed.unknown]
        if is_applied(rules, chosen, observed):
            return Applied(
                changed=False, backend=chosen, reason=reason, commands=(), notes=tuple(notes)
            )
        steps = tuple(steps_to_apply(rules, chosen, observed))
        if not dry_run:
            _do(steps, lock)
    return Applied(
        changed=True,
        backend=chosen,
        reason=reason,
        commands=tuple(map(str, steps)),
        notes=tuple(notes),
    )


def clean_capture(*, dry_run: bool = False, lock_timeout_s: float = 30.0) -> Cleaned:
    """Remove all rules of ours and of Istio's tools, by whatever flags they were applied.

    Raises `LockTimedOut` or `CaptureFailed`.
    """
    with _locked(dry_run=dry_run, timeout_s=lock_timeout_s) as lock:
        observed = observe_capture()
        steps = tuple(steps_to_clean(observed))
        notes = [*observed.unknown, *_lasting(observed)]
        if not dry_run:
            _do(steps, lock)
    found = [f"our rules, by {each}" for each in observed.own]
    found += [f"rules of Istio's, by {each}" for each in observed.istio]
    return Cleaned(
        changed=bool(steps),
        found=tuple(found),
        commands=tuple(map(str, steps)),
        notes=tuple(notes),
    )


@contextmanager
def _locked(*, dry_run: bool, timeout_s: float) -> Iterator[int | None]:
    if dry_run:
        yield None
        return
    with only_one(timeout_s=timeout_s) as lock:
        yield lock


def _do(steps: tuple[Step, ...], lock: int | None) -> None:
    for step in steps:
        if step.call is not None:
            step.call()
        else:
            run_all(step.commands, keep_open=() if lock is None else (lock,))


def _unmatched(config: CaptureConfig) -> Iterator[str]:
    """Yield which ids no process can have here; raises `CaptureFailed` if all of the proxy's.

    nft takes such an id and never matches: the proxy's own traffic would come back to it.
    """
    uids, gids = unmapped(config.proxy_uids), unmapped(config.proxy_gids, groups=True)
    if len(uids) == len(config.proxy_uids) and len(gids) == len(config.proxy_gids):
        raise CaptureFailed(
            "none of the proxy's users and groups "
            f"({', '.join(map(str, (*uids, *gids)))}) exists in this user namespace, so no rule "
            "would know its traffic: map a range of ids (newuidmap, a line in /etc/subuid), or "
            "name a user or group that is there"
        )
    for kind, ids in (("user", uids), ("group", gids)):
        for each in ids:
            yield f"no process here can have the {kind} {each}: the rules about it match nothing"


def _choose(wanted: Backend | None, observed: Observed) -> tuple[Backend, str]:
    """Choose a backend by what there is; no rule is written for that."""
    if wanted is not None:
        require(wanted, observed)
        return wanted, "it was asked for"
    if not observed.usable[Backend.NFT]:
        return Backend.NFT, "nft is there, and has a table of its own replaced at once"
    why_not = observed.usable[Backend.NFT]
    able = [each for each in IPTABLES if not observed.usable[each]]
    for each in able:
        rules = sum(
            len(table.rules)
            for (backend, _), tables in observed.tables.items()
            if backend is each
            for table in tables.values()
        )
        if rules:
            return each, f"{why_not}, and {each} has {rules} rules"
    if able:
        return able[0], f"{why_not}, and no backend of iptables has rules"
    is_there = why_not != NO_NFT
    raise CaptureFailed(
        f"there is no way to write rules ({'; '.join(observed.usable.values())}): "
        + ("load the kernel's module, modprobe nf_tables" if is_there else "install nftables")
    )


def _lasting(observed: Observed) -> Iterator[str]:
    if any(
        tables
        for (backend, _), tables in observed.tables.items()
        if backend is Backend.IPTABLES_LEGACY
    ):
        yield (
            "the tables of iptables-legacy stay registered in this network namespace, empty or "
            "not: the kernel has no way to remove them"
        )
