"""A running agent, by what it tells: readiness, certificate, configuration, and its Envoy."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from mesh_doctor._config import DoctorConfig
from mesh_doctor._finding import Cause, Finding, ok, problem, skipped, warning
from mesh_doctor._observed import Observed, entry, text
from mesh_doctor.checks._words import span

CHECK = "agent"
_TYPE_PREFIX = "type.googleapis.com/"
_SHORT_SERIAL = 12


def agent(config: DoctorConfig, seen: Observed) -> Iterator[Finding]:
    """Look at the agent's status, if one runs."""
    document = seen.agent.document
    where = config.agent.address
    if document is None:
        if seen.agent.refused:
            yield skipped(CHECK, f"none runs at {where}: the rest is what one would meet")
        elif seen.agent.answered:
            yield problem(
                CHECK,
                Cause.AGENT_SILENT,
                f"what listens at {where} gives no agent's status: {seen.agent.reason}",
                "if it is an agent that starts, wait; if it is another program, see the ports",
            )
        else:
            yield problem(
                CHECK,
                Cause.AGENT_SILENT,
                f"the agent's status can't be had from {where}: {seen.agent.reason}",
                "look at the agent's log; an agent that does not answer at all has to be restarted",
            )
        return
    yield from _certificate(entry(document, "certificate"), seen)
    yield from _drift(entry(document, "certificate"), seen)
    if _is_unasked(document):
        yield skipped("configuration stream", "no program has asked for configuration yet")
    else:
        yield from _configuration(entry(document, "xds"), seen.now)
    yield from _envoy(entry(document, "envoy"))
    health = entry(document, "health_check")
    if health.get("healthy") is False:
        yield warning(
            "application",
            Cause.APPLICATION_UNHEALTHY,
            f"the control plane was told that the application is not healthy: "
            f"{text(health, 'reason') or 'no reason given'}",
            "look at the application; while it is not healthy no requests are sent to it",
        )
    yield from _readiness(document, where)  # follows from all the others


def _readiness(document: Mapping[str, object], where: str) -> Iterator[Finding]:
    if document.get("ready") is True:
        yield ok(CHECK, f"runs at {where}, and is ready")
        return
    reasons = document.get("reasons")
    said = "; ".join(map(str, reasons)) if isinstance(reasons, list) else ""
    for part in ("certificate", "xds"):
        error = entry(document, part).get("last_error")
        if isinstance(error, str) and error:
            said = said.replace(error, "see above")
    yield problem(
        CHECK,
        Cause.AGENT_NOT_READY,
        f"runs at {where}, and is not ready: {' '.join(said[:2000].split()) or 'no reason given'}",
        "mend the other problems first, this one follows from them",
        brief=f"runs at {where}, and is not ready",
    )


def _is_unasked(document: Mapping[str, object]) -> bool:
    """Return whether no program of a workload without an Envoy has asked for configuration yet.

    The agent connects to the control plane for a program that asks, and not before.
    """
    xds = entry(document, "xds")
    return (
        text(entry(document, "envoy"), "state") == "none"
        and xds.get("connected") is False
        and not xds.get("streams")
        and not text(xds, "last_error")
    )


def _configuration(xds: Mapping[str, object], now: float) -> Iterator[Finding]:
    if xds.get("connected") is False:
        left_s = _seconds_left(text(xds, "since"), now)
        since = "" if left_s is None else f" for {span(left_s)}"
        yield problem(
            "configuration stream",
            Cause.AGENT_DISCONNECTED,
            f"the agent has not been connected to the control plane{since}: "
            f"{text(xds, 'last_error') or 'it has not answered yet'}",
            "see the control plane and the token; Envoy goes on with the configuration that it has",
            brief=f"the agent has not been connected to the control plane{since}",
        )
    types = entry(xds, "types")
    refused = {name: entry(types, name) for name in types if text(entry(types, name), "nack")}
    for name, known in sorted(refused.items()):
        kept = text(known, "in_use")
        goes_on = f"version {kept} stays in use" if kept else "it has none of this type"
        reasons = known.get("push_reasons")
        pushed = ", ".join(map(str, reasons)) if isinstance(reasons, list) else ""
        yield problem(
            "configuration stream",
            Cause.NACK,
            f"version {text(known, 'version')} of {_name(known, name)} is refused: "
            f"{text(known, 'nack')}; {goes_on}",
            f"correct what the reason names{f' (last pushed for {pushed[:300]})' if pushed else ''}"
            "; the control plane sends it again",
        )
    if xds.get("connected") is True and not refused:
        yield ok("configuration stream", f"connected, and none of {len(types)} types is refused")


def _name(known: Mapping[str, object], type_url: str) -> str:
    return text(known, "name") or type_url.removeprefix(_TYPE_PREFIX)


def _short(serial: str) -> str:
    """Return the end of a serial number, by which two certificates differ at a glance.

    The first digits are the time at which the holder proved its identity.
    """
    return serial if len(serial) <= _SHORT_SERIAL + 4 else f"…{serial[-_SHORT_SERIAL:]}"


def _certificate(certificate: Mapping[str, object], seen: Observed) -> Iterator[Finding]:
    check, error = "certificate", text(certificate, "last_error")
    if text(certificate, "served_by"):
        yield ok(check, f"served by another process at {text(certificate, 'served_by')}")
        return
    if not text(certificate, "serial"):
        yield problem(
            check,
            Cause.CERTIFICATE_MISSING,
            f"the workload has no certificate: {error or 'none has been asked for yet'}",
            "see the token and the control plane; the agent goes on trying",
            brief="the workload has no certificate",
        )
        return
    left_s = _seconds_left(text(certificate, "not_after"), seen.now)
    if left_s is not None and left_s <= 0:
        yield problem(
            check,
            Cause.CERTIFICATE_EXPIRED,
            f"the workload's certificate expired {span(left_s)} ago"
            + (f": {error}" if error else ""),
            "see the token and the control plane; the agent goes on trying",
            brief=f"the workload's certificate expired {span(left_s)} ago",
        )
    elif error:
        lasts = "" if left_s is None else f"; the one in use lasts for {span(left_s)}"
        yield problem(
            check,
            Cause.CERTIFICATE_NOT_RENEWED,
            f"the last attempt to renew the workload's certificate failed: {error}{lasts}",
            "see the token and the control plane; the agent goes on trying",
            brief=f"the last attempt to renew the workload's certificate failed{lasts}",
        )
    elif left_s is not None:
        yield ok(check, f"{_short(text(certificate, 'serial'))}, valid for {span(left_s)}")


def _seconds_left(not_after: str, now: float) -> float | None:
    try:
        moment = datetime.fromisoformat(not_after)
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now


def _drift(certificate: Mapping[str, object], seen: Observed) -> Iterator[Finding]:
    """Compare the certificate that was issued with those that Envoy has."""
    check, issued = "served certificate", text(certificate, "serial").lstrip("0")
    if seen.certificates is None or not issued:
        return
    if seen.certificates.document is None:
        yield skipped(check, f"Envoy's admin interface can't be asked: {seen.certificates.reason}")
        return
    served = served_serials(seen.certificates.document)
    if not served:
        yield skipped(check, "Envoy has no workload certificate yet")
    elif issued in served:
        yield ok(check, "Envoy serves the certificate that was issued last")
    else:
        yield problem(
            check,
            Cause.CERTIFICATE_DRIFT,
            f"Envoy serves {', '.join(map(_short, sorted(served)))}, and "
            f"{_short(issued)} was issued last",
            "if that stays so, Envoy does not take secrets from the agent: look for SDS errors in "
            "its log, or replace it with `mesh-agent request POST restart --debug-port 15020`",
        )


def served_serials(document: Mapping[str, object]) -> frozenset[str]:
    """Return the serials of the certificates in Envoy's page /certs, without leading zeros."""
    found = set()
    certificates = document.get("certificates")
    for each in certificates if isinstance(certificates, list) else ():
        chain = each.get("cert_chain") if isinstance(each, dict) else None
        for link in chain if isinstance(chain, list) else ():
            if isinstance(link, dict) and isinstance(link.get("serial_number"), str):
                found.add(link["serial_number"].lower().lstrip("0"))
    return frozenset(found)


def _envoy(envoy: Mapping[str, object]) -> Iterator[Finding]:
    crashes = envoy.get("crashes")
    if isinstance(crashes, int) and crashes > 0:
        yield warning(
            "Envoy's life",
            Cause.ENVOY_CRASHED,
            f"Envoy has ended by itself {'once' if crashes == 1 else f'{crashes} times'} since the "
            f"agent started, last: "
            f"{text(envoy, 'last_crash') or 'for an unknown reason'}",
            "look at its last lines in the agent's log",
        )
    warming, names = envoy.get("warming"), envoy.get("warming_clusters")
    if isinstance(warming, int) and warming > 0:
        named = ", ".join(map(str, names[:10]))[:2000] if isinstance(names, list) else ""
        yield warning(
            "Envoy's configuration",
            Cause.CLUSTERS_WARMING,
            f"{warming} clusters are warming, Envoy does not use them yet: "
            f"{named or 'it names none'}",
            "they wait for endpoints or for a secret: look at what the control plane has of "
            "these services; `mesh-agent request GET init_dump` tells what Envoy waits for",
        )
    if text(envoy, "last_refusal"):
        yield warning(
            "Envoy's life",
            Cause.ENVOY_REFUSED_RESTART,
            f"the last restart was refused: {text(envoy, 'last_refusal')}",
            "correct the bootstrap or the binary that the reason names, and restart it again",
        )
