"""A finding: what is so, how bad it is, and what to do about it."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Status(StrEnum):
    """How bad a finding is. Only a problem makes the command fail."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    CONSEQUENCE = "consequence"
    """a problem that goes away with another one"""
    SKIPPED = "skipped"
    """not examined, for the reason that the finding gives"""


class Cause(StrEnum):
    """The kinds of problems and warnings; scripts go by these."""

    CONFIGURATION = "configuration"
    CLOCK_SKEW = "clock-skew"
    DISK_FULL = "disk-full"
    DISK_READ_ONLY = "disk-read-only"
    DISK_SILENT = "disk-silent"
    NOT_SAVED = "not-saved"
    TOKEN_MISSING = "token-missing"  # noqa: S105
    TOKEN_UNREADABLE = "token-unreadable"  # noqa: S105
    TOKEN_INVALID = "token-invalid"  # noqa: S105
    TOKEN_EXPIRED = "token-expired"  # noqa: S105
    TOKEN_NOT_YET_VALID = "token-not-yet-valid"  # noqa: S105
    TOKEN_FOREIGN = "token-foreign"  # noqa: S105
    TOKEN_REFUSED = "token-refused"  # noqa: S105
    ROOT_MISSING = "root-missing"
    WRONG_ROOT = "wrong-root"
    WRONG_NAME = "wrong-name"
    CONTROL_PLANE_UNRESOLVED = "control-plane-unresolved"
    CONTROL_PLANE_REFUSES = "control-plane-refuses-connections"
    CONTROL_PLANE_SILENT = "control-plane-silent"
    CONTROL_PLANE_NO_TLS = "control-plane-no-tls"
    CONTROL_PLANE_CERTIFICATE = "control-plane-certificate"
    CONTROL_PLANE_UNREACHABLE = "control-plane-unreachable"
    PORT_TAKEN = "port-taken"
    DNS_LOOP = "dns-loop"
    NO_RESOLVER = "no-resolver"
    CAPTURE_MISSING = "capture-missing"
    CAPTURE_UNWANTED = "capture-unwanted"
    ENVOY_MISSING = "envoy-missing"
    ENVOY_BROKEN = "envoy-broken"
    ENVOY_CRASHED = "envoy-crashed"
    CLUSTERS_WARMING = "clusters-warming"
    ENVOY_REFUSED_RESTART = "envoy-refused-restart"
    AGENT_SILENT = "agent-silent"
    AGENT_NOT_READY = "agent-not-ready"
    AGENT_DISCONNECTED = "agent-disconnected"
    NACK = "nack"
    CERTIFICATE_MISSING = "certificate-missing"
    CERTIFICATE_EXPIRED = "certificate-expired"
    CERTIFICATE_NOT_RENEWED = "certificate-not-renewed"
    CERTIFICATE_DRIFT = "certificate-drift"
    APPLICATION_UNHEALTHY = "application-unhealthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found.

    check: what was examined, as in `token`. said: what is so, in one sentence. cause: None unless
    it is a problem, a consequence or a warning. fix: what to do; empty where nothing is to be done.
    brief: `said` without a reason that another finding has. follows: of a consequence, the check
    whose problem it goes away with.
    """

    check: str
    status: Status
    said: str
    cause: Cause | None = None
    fix: str = ""
    brief: str = ""
    follows: str = ""


def ok(check: str, said: str, fix: str = "") -> Finding:
    """Return a finding that all is well; fix: what to do if something else was meant."""
    return Finding(check=check, status=Status.OK, said=said, fix=fix)


def skipped(check: str, reason: str) -> Finding:
    """Return a finding that something was not examined, and why."""
    return Finding(check=check, status=Status.SKIPPED, said=reason)


def problem(check: str, cause: Cause, said: str, fix: str, *, brief: str = "") -> Finding:
    """Return a problem."""
    return Finding(check=check, status=Status.PROBLEM, said=said, cause=cause, fix=fix, brief=brief)


def consequence(finding: Finding, *, of: str) -> Finding:
    """Return a problem as what follows from that of another check."""
    return replace(finding, status=Status.CONSEQUENCE, follows=of)


def warning(check: str, cause: Cause, said: str, fix: str) -> Finding:
    """Return a warning."""
    return Finding(check=check, status=Status.WARNING, said=said, cause=cause, fix=fix)
