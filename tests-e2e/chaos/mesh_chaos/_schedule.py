"""Which fault comes when: drawn from a seed, before anything runs.

Faults that would together make a failure legitimate that neither of them makes alone never
overlap: two replicas of a service away at once leave no one to answer. What a fault needs for
itself is its `touched` set; two faults may overlap if these have nothing in common.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class Target(StrEnum):
    """The sorts of things that faults happen to."""

    WORKLOAD = "workload"
    CONTROL_PLANE = "control plane"
    CONFIGURATION = "configuration"
    RESOLVER = "resolver"
    AUTHORITY = "authority"
    MACHINE = "machine"


class Kind(StrEnum):
    """The faults, by the names that reports have."""

    ENVOY_KILLED = "envoy-killed"
    ENVOY_OUT_OF_MEMORY = "envoy-out-of-memory"
    ENVOY_STOPPED = "envoy-stopped"
    HOT_RESTART = "hot-restart"
    AGENT_KILLED = "agent-killed"
    AGENT_STARTS_ALONE = "agent-starts-alone"
    AGENT_STOPPED = "agent-stopped"
    AGENT_FEW_DESCRIPTORS = "agent-few-descriptors"
    AGENT_FULL_DISK = "agent-full-disk"
    AGENT_READ_ONLY_DISK = "agent-read-only-disk"
    AGENT_CLOCK_JUMP = "agent-clock-jump"
    SAVED_STATE_CHANGED = "saved-state-changed"
    SAVED_STATE_OLDER = "saved-state-older"
    CONTROL_PLANE_KILLED = "control-plane-killed"
    CONTROL_PLANE_AWAY = "control-plane-away"
    CONTROL_PLANE_STOPPED = "control-plane-stopped"
    SIGNERS_KILLED = "signers-killed"
    CONTROL_PLANE_FEW_DESCRIPTORS = "control-plane-few-descriptors"
    CONTROL_PLANE_FULL_DISK = "control-plane-full-disk"
    CONTROL_PLANE_READ_ONLY_DISK = "control-plane-read-only-disk"
    CONTROL_PLANE_CLOCK_JUMP = "control-plane-clock-jump"
    AUTHORITY_AWAY = "authority-away"
    AUTHORITY_SLOW = "authority-slow"
    NEW_ROOT = "new-root"
    UNREAD_STREAMS = "unread-streams"
    IDLE_CONNECTIONS = "idle-connections"
    GOOD_EDIT = "good-edit"
    WRONG_EDIT = "wrong-edit"
    TWO_EDITS = "two-edits"
    DELETED_FILE = "deleted-file"
    RESOLVER_DEAD = "resolver-dead"
    RESOLVER_LYING = "resolver-lying"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What holds for all faults of a kind.

    lasts_s: from, to. alone: the workload can't serve meanwhile, so that no other of its service
    may be away. crashes: counts against the number of crashes after which an agent gives up.
    needs_control_plane: it has that for itself too: what is asked of it is refused while it is
    away, as a hot restart is, or it is taken away as a part of this.
    """

    target: Target
    lasts_s: tuple[float, float] = (0.0, 0.0)
    alone: bool = False
    crashes: bool = False
    needs_control_plane: bool = False


_SHAPES = {
    Kind.ENVOY_KILLED: _Shape(target=Target.WORKLOAD, alone=True, crashes=True),
    Kind.ENVOY_OUT_OF_MEMORY: _Shape(target=Target.WORKLOAD, alone=True, crashes=True),
    Kind.ENVOY_STOPPED: _Shape(target=Target.WORKLOAD, lasts_s=(0.2, 4), alone=True),
    Kind.HOT_RESTART: _Shape(target=Target.WORKLOAD, needs_control_plane=True),
    Kind.AGENT_KILLED: _Shape(target=Target.WORKLOAD, lasts_s=(0, 3), alone=True),
    Kind.AGENT_STARTS_ALONE: _Shape(
        target=Target.WORKLOAD, lasts_s=(10, 10), alone=True, needs_control_plane=True
    ),
    Kind.AGENT_STOPPED: _Shape(target=Target.WORKLOAD, lasts_s=(0.2, 6)),
    Kind.AGENT_FEW_DESCRIPTORS: _Shape(target=Target.WORKLOAD, lasts_s=(2, 8)),
    Kind.AGENT_FULL_DISK: _Shape(target=Target.WORKLOAD, lasts_s=(4, 12)),
    Kind.AGENT_READ_ONLY_DISK: _Shape(target=Target.WORKLOAD, lasts_s=(4, 12)),
    Kind.AGENT_CLOCK_JUMP: _Shape(target=Target.WORKLOAD, lasts_s=(4, 10), alone=True),
    Kind.SAVED_STATE_CHANGED: _Shape(target=Target.WORKLOAD, alone=True),
    Kind.SAVED_STATE_OLDER: _Shape(target=Target.WORKLOAD, alone=True),
    Kind.CONTROL_PLANE_KILLED: _Shape(target=Target.CONTROL_PLANE),
    Kind.CONTROL_PLANE_AWAY: _Shape(target=Target.CONTROL_PLANE, lasts_s=(3, 12)),
    Kind.CONTROL_PLANE_STOPPED: _Shape(target=Target.CONTROL_PLANE, lasts_s=(0.5, 8)),
    Kind.SIGNERS_KILLED: _Shape(target=Target.CONTROL_PLANE),
    Kind.CONTROL_PLANE_FEW_DESCRIPTORS: _Shape(target=Target.CONTROL_PLANE, lasts_s=(2, 8)),
    Kind.CONTROL_PLANE_FULL_DISK: _Shape(target=Target.CONTROL_PLANE, lasts_s=(4, 12)),
    Kind.CONTROL_PLANE_READ_ONLY_DISK: _Shape(target=Target.CONTROL_PLANE, lasts_s=(4, 12)),
    Kind.CONTROL_PLANE_CLOCK_JUMP: _Shape(target=Target.CONTROL_PLANE, lasts_s=(6, 12)),
    Kind.AUTHORITY_AWAY: _Shape(target=Target.AUTHORITY, lasts_s=(3, 15)),
    Kind.AUTHORITY_SLOW: _Shape(target=Target.AUTHORITY, lasts_s=(5, 15)),
    Kind.NEW_ROOT: _Shape(target=Target.CONTROL_PLANE),
    Kind.UNREAD_STREAMS: _Shape(target=Target.CONTROL_PLANE, lasts_s=(4, 12)),
    Kind.IDLE_CONNECTIONS: _Shape(target=Target.MACHINE, lasts_s=(4, 12)),
    Kind.GOOD_EDIT: _Shape(target=Target.CONFIGURATION),
    Kind.WRONG_EDIT: _Shape(target=Target.CONFIGURATION, lasts_s=(1, 4), needs_control_plane=True),
    Kind.TWO_EDITS: _Shape(target=Target.CONFIGURATION),
    Kind.DELETED_FILE: _Shape(target=Target.CONFIGURATION, lasts_s=(0.1, 2)),
    Kind.RESOLVER_DEAD: _Shape(target=Target.RESOLVER, lasts_s=(3, 10)),
    Kind.RESOLVER_LYING: _Shape(target=Target.RESOLVER, lasts_s=(3, 10)),
}

RECOVERY_S = 6.0
"""Planned between faults that conflict; one that takes longer to get over delays the next."""
CRASHES_APART_S = 30.0
"""An agent gives up after six crashes in two minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. Times are seconds since the first; draw: for choices of the fault's own."""

    number: int
    kind: Kind
    target: str
    at_s: float
    lasts_s: float
    draw: int

    @property
    def ends_s(self) -> float:
        return self.at_s + self.lasts_s

    def __str__(self) -> str:
        return f"#{self.number} {self.kind} of {self.target} at t={self.at_s:.1f} s"


def touched(fault: Fault, services: Mapping[str, str]) -> frozenset[str]:
    """What a fault has for itself. services: the service of each workload."""
    shape = _SHAPES[fault.kind]
    # Of the two resolvers one has to answer.
    of = "" if shape.target is Target.RESOLVER else fault.target
    found = {f"{shape.target} {of}"}
    if shape.alone:
        found.add(f"service {services[fault.target]}")
    if shape.needs_control_plane:
        found.add(f"{Target.CONTROL_PLANE} {Target.CONTROL_PLANE}")
    return frozenset(found)


def apart_s(first: Fault, second: Fault, services: Mapping[str, str]) -> float | None:
    """How long after the first has ended the second may begin; None if it may at any time."""
    if not touched(first, services) & touched(second, services):
        return None
    both_crash = _SHAPES[first.kind].crashes and _SHAPES[second.kind].crashes
    same = first.target == second.target
    return CRASHES_APART_S if both_crash and same else RECOVERY_S


def schedule(
    seed: int,
    *,
    seconds: float,
    services: Mapping[str, str],
    kinds: Sequence[Kind],
    targets: Mapping[Kind, Sequence[str]] | None = None,
    every_s: float = 4.0,
) -> tuple[Fault, ...]:
    """Draw the faults of a run, in the order of their times.

    services: the service of each workload. kinds: those that this machine can do; each comes up
    once before any comes up again. targets: of kinds that can't happen to every workload. every_s:
    the mean time between two beginnings.
    """
    rng = random.Random(seed)
    bag = _bag(rng, kinds)
    drawn: list[Fault] = []
    at_s = 0.0
    while kinds and at_s < seconds:
        kind = next(bag)
        among = (targets or {}).get(kind) or _targets(kind, services)
        fault = _draw(rng, kind, among, number=len(drawn) + 1, at_s=at_s)
        begins_s = max([at_s, *(_free_s(each, fault, services) for each in drawn)])
        placed = replace(fault, at_s=round(begins_s, 2))
        if placed.ends_s <= seconds:
            drawn.append(placed)
        at_s += rng.uniform(0.5, 1.5) * every_s
    return tuple(sorted(drawn, key=lambda each: (each.at_s, each.number)))


def _free_s(earlier: Fault, later: Fault, services: Mapping[str, str]) -> float:
    apart = apart_s(earlier, later, services)
    return 0.0 if apart is None else earlier.ends_s + apart


def _bag(rng: random.Random, kinds: Sequence[Kind]) -> Iterator[Kind]:
    while True:
        yield from rng.sample(list(kinds), len(kinds))


def _targets(kind: Kind, services: Mapping[str, str]) -> Sequence[str]:
    target = _SHAPES[kind].target
    return sorted(services) if target is Target.WORKLOAD else [str(target)]


def _draw(
    rng: random.Random, kind: Kind, among: Sequence[str], *, number: int, at_s: float
) -> Fault:
    return Fault(
        number=number,
        kind=kind,
        target=rng.choice(among),
        at_s=at_s,
        lasts_s=round(rng.uniform(*_SHAPES[kind].lasts_s), 2),
        draw=rng.getrandbits(32),
    )
