"""Connections through the rules: each arrives where the rules lead it, or a rule is missing.

What comes in from other machines can't be sent from here. The proxy's call of its own workload has
the same end, and of the rules for what comes in it is said whether they are there.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from contextlib import ExitStack, suppress

from mesh_traffic_capture._errors import CaptureFailed
from mesh_traffic_capture._value import value
from mesh_traffic_capture.applying import Observed, observe_capture, rule_names
from mesh_traffic_capture.config import CaptureConfig
from mesh_traffic_capture.kernel import opened_by, out_interface
from mesh_traffic_capture.rules import Family, Hook, Protocol, RuleSet, build_rules
from mesh_traffic_capture.validating._probes import NoProbe, Probe, Way, probes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_ORIGINAL_DESTINATION: Final = 80
_TRY_AGAIN_S: Final = 0.5
_IN_USE: Final = frozenset({errno.EADDRINUSE, errno.EACCES})


@value
class ValidationResult:
    """Whether traffic of one way and address family arrives at the proxy."""

    way: Way
    family: Family
    arrived: bool | None
    """None: nothing could be tried."""
    text: str
    """A sentence; if it did not arrive, with the rule that is missing or should have decided."""


def validate_capture(
    config: CaptureConfig, *, timeout_s: float = 5.0, port: int = 15002
) -> tuple[ValidationResult, ...]:
    """Connect through the rules, as the proxy and as an application.

    Tried again until the timeout, as rules may come later. A process that is not root is the proxy
    or the application, and can only try as that one. Raises `InvalidCapture`.
    """
    rules = build_rules(config)
    end = time.monotonic() + timeout_s
    return tuple(
        _result(probe, rules, end)
        for probe in probes(config, rules, port=port, route=out_interface)
    )


def _result(probe: Probe | NoProbe, rules: RuleSet, end: float) -> ValidationResult:
    what = f"{probe.way} by IPv{probe.family}"
    if isinstance(probe, NoProbe):
        return ValidationResult(
            way=probe.way, family=probe.family, arrived=None, text=f"{what}: {probe.why}"
        )
    try:
        why = _try(probe, end)
    except CaptureFailed as error:
        return ValidationResult(
            way=probe.way, family=probe.family, arrived=None, text=f"{what}: not tried: {error}"
        )
    if why is None:
        lacking = _lacking_inbound(rules) if probe.way is Way.INBOUND else None
        return ValidationResult(
            way=probe.way,
            family=probe.family,
            arrived=lacking is None,
            text=f"{what}: {lacking or f'it arrives at port {probe.port}'}",
        )
    return ValidationResult(
        way=probe.way,
        family=probe.family,
        arrived=False,
        text=f"{what}: it does not arrive at port {probe.port} ({why}): {_missing(probe)}",
    )


def _try(probe: Probe, end: float) -> str | None:
    """Return None if it arrives, or why not."""
    with ExitStack() as stack:
        listener = _listener(probe, stack)
        while True:
            why = _send(probe, listener, min(_TRY_AGAIN_S, max(0.05, end - time.monotonic())))
            if why is None or time.monotonic() >= end:
                return why
            time.sleep(min(_TRY_AGAIN_S, max(0.0, end - time.monotonic())))


def _address_family(probe: Probe) -> int:
    return socket.AF_INET if probe.family is Family.IPV4 else socket.AF_INET6


def _kind(probe: Probe) -> int:
    return socket.SOCK_STREAM if probe.packet.protocol is Protocol.TCP else socket.SOCK_DGRAM


def _listener(probe: Probe, stack: ExitStack) -> socket.socket | None:
    """Listen where it should arrive; None if another does, such as the proxy."""
    listener = stack.enter_context(socket.socket(_address_family(probe), _kind(probe)))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    host = "127.0.0.1" if probe.family is Family.IPV4 else "::1"
    try:
        listener.bind((host, probe.port))
        if probe.packet.protocol is Protocol.TCP:
            listener.listen(8)
    except OSError as error:
        if error.errno in _IN_USE:
            return None
        raise CaptureFailed(f"{host} can't be listened on: {error.strerror}") from error
    listener.setblocking(False)
    return listener


def _send(probe: Probe, listener: socket.socket | None, timeout_s: float) -> str | None:
    packet = probe.packet
    if packet.uid is None or packet.gid is None:
        return "the packet has no owner"
    with opened_by(packet.uid, packet.gid, _address_family(probe), _kind(probe)) as sender:
        sender.settimeout(timeout_s)
        there = (str(packet.destination), packet.destination_port)
        try:
            if packet.source is not None:
                sender.bind((str(packet.source), 0))
            sender.connect(there)
            if packet.protocol is Protocol.UDP:
                sender.send(b"\0" * 12)
        except OSError as error:
            return error.strerror or "no answer in time"
        if listener is None:
            # The proxy has the port: to have an answer from an address that has none is enough.
            return None if packet.protocol is Protocol.TCP else "another process has the port"
        return _arrived(probe, listener, sender, timeout_s)


def _arrived(
    probe: Probe, listener: socket.socket, sender: socket.socket, timeout_s: float
) -> str | None:
    end = time.monotonic() + timeout_s
    while select.select([listener], [], [], max(0.0, end - time.monotonic()))[0]:
        with suppress(OSError):
            if probe.packet.protocol is Protocol.UDP:
                peer = listener.recvfrom(64)[1]
                if peer[1] == sender.getsockname()[1]:
                    return None
                continue
            accepted, _ = listener.accept()
            with accepted:
                if _original_port(accepted) == probe.packet.destination_port:
                    return None
    return "no answer in time"


def _original_port(accepted: socket.socket) -> int:
    """Return the port that a redirected connection was for."""
    if accepted.family == socket.AF_INET6:
        raw = accepted.getsockopt(socket.IPPROTO_IPV6, _ORIGINAL_DESTINATION, 28)
    else:
        raw = accepted.getsockopt(socket.SOL_IP, _ORIGINAL_DESTINATION, 16)
    return int(struct.unpack_from("!H", raw, 2)[0])


def _seen() -> Observed | str:
    try:
        return observe_capture()
    except CaptureFailed as error:
        return str(error)


def _missing(probe: Probe) -> str:
    """Return which rule on the way is not there."""
    step = probe.explanation.decided_by
    decides = f"the rule {step.rule.name} of {step.chain}" if step is not None else "no rule"
    seen = _seen()
    if isinstance(seen, str):
        return f"{decides} should take it; whether that is there can't be seen: {seen}"
    if not seen.own:
        return f"there are no rules of ours, so {decides} is missing: apply them"
    names = rule_names(seen, probe.family)
    for each in probe.explanation.steps:
        if (each.chain, each.rule.name) not in names:
            return f"the rule {each.rule.name} of {each.chain} is missing: apply the rules again"
    where = " and ".join(seen.own)
    others = "; Istio's rules are there as well" if seen.istio else ""
    return f"{decides} is there, by {where}, and another decides before it{others}"


def _lacking_inbound(rules: RuleSet) -> str | None:
    """Return which rule for what comes in is not there, as far as that can be seen."""
    seen = _seen()
    if isinstance(seen, str) or not seen.own:
        return None
    for family in (Family.IPV4, Family.IPV6) if rules.ipv6 else (Family.IPV4,):
        names = rule_names(seen, family)
        for chain in rules.hooked(Hook.PREROUTING):
            for rule in chain.rules:
                ours = rule.match.family in {None, family}
                if ours and (chain.name, rule.name) not in names:
                    return (
                        f"the proxy's own call arrives, but the rule {rule.name} of {chain.name} "
                        f"is missing for IPv{family}: apply the rules again"
                    )
    return None
