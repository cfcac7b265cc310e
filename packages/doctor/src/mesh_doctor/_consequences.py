"""Tells problems from what follows from them: one cause is one problem.

A consequence is a short line, and goes away with its cause; should it stay, it is a problem of its
own at the next look.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from mesh_doctor._finding import Cause, Finding, Status, consequence

_TRUST = frozenset(
    {
        Cause.CLOCK_SKEW,
        Cause.ROOT_MISSING,
        Cause.WRONG_ROOT,
        Cause.WRONG_NAME,
        Cause.CONTROL_PLANE_UNRESOLVED,
        Cause.CONTROL_PLANE_REFUSES,
        Cause.CONTROL_PLANE_SILENT,
        Cause.CONTROL_PLANE_NO_TLS,
        Cause.CONTROL_PLANE_CERTIFICATE,
        Cause.CONTROL_PLANE_UNREACHABLE,
        Cause.TOKEN_MISSING,
        Cause.TOKEN_UNREADABLE,
        Cause.TOKEN_INVALID,
        Cause.TOKEN_EXPIRED,
        Cause.TOKEN_NOT_YET_VALID,
        Cause.TOKEN_FOREIGN,
        Cause.TOKEN_REFUSED,
    }
)
"""What keeps the control plane from being reached, verified, or convinced."""
_CAUSES: Mapping[Cause, frozenset[Cause]] = MappingProxyType(
    {
        Cause.CERTIFICATE_MISSING: _TRUST,
        Cause.CERTIFICATE_EXPIRED: _TRUST,
        Cause.CERTIFICATE_NOT_RENEWED: _TRUST,
        Cause.AGENT_DISCONNECTED: _TRUST | {Cause.CERTIFICATE_MISSING, Cause.CERTIFICATE_EXPIRED},
        Cause.AGENT_NOT_READY: frozenset(Cause),
        Cause.AGENT_SILENT: frozenset({Cause.PORT_TAKEN}),
        Cause.NOT_SAVED: frozenset({Cause.DISK_FULL, Cause.DISK_READ_ONLY, Cause.DISK_SILENT}),
    }
)
"""By cause, the causes that it may follow from."""


def with_consequences(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings; a problem that may follow from one before is its consequence."""
    roots: dict[Cause, str] = {}
    for each in findings:
        if each.cause is None or each.status not in {Status.PROBLEM, Status.WARNING}:
            yield each
            continue
        of = next((check for cause, check in roots.items() if cause in _before(each.cause)), None)
        if of is not None:
            yield consequence(each, of=of)
            continue
        if each.status is Status.PROBLEM:
            roots.setdefault(each.cause, each.check)
        yield each


def _before(cause: Cause) -> frozenset[Cause]:
    return _CAUSES.get(cause, frozenset())
