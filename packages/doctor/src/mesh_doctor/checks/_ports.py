"""Whether the ports of the agent and its Envoy are free, or theirs."""

import ipaddress
from collections.abc import Iterator

from mesh_doctor._config import DoctorConfig, PortUse
from mesh_doctor._finding import Cause, Finding, ok, problem, skipped
from mesh_doctor._observed import Listener, Observed, entry, runs, text

CHECK = "ports"


def ports(config: DoctorConfig, seen: Observed) -> Iterator[Finding]:
    """Look for other programs on the ports."""
    if seen.listeners is None:
        yield skipped(CHECK, "/proc/net, where listening sockets are shown, can't be read")
        return
    other = text(seen.agent.document or {}, "workload")
    if config.workload and other and other != config.workload:
        yield problem(
            CHECK,
            Cause.PORT_TAKEN,
            f"the agent at {config.agent.address} is that of another workload, {other}; this one "
            f"is {config.workload}",
            "give each agent an address of its own (MESH_AGENT_BIND_ADDRESS) or a namespace",
        )
        return
    own = _own_processes(seen)
    silent = next((each for each in seen.listeners if own is None and _is_own(config, each)), None)
    if silent is not None:
        who = f"process {silent.pid} ({silent.program})"
        yield skipped(CHECK, f"an agent, {who}, has port {silent.port}: see there")
        return
    taken = 0
    for use in config.ports:
        holder = next((each for each in seen.listeners if _stands_in_the_way(each, use, own)), None)
        if holder is not None:
            taken += 1
            yield _finding(use, holder)
    if not taken:
        numbers = ", ".join(str(number) for number in sorted({each.port for each in config.ports}))
        yield ok(CHECK, f"{numbers}: " + ("free" if own is None else "the agent's and its Envoy's"))


def _own_processes(seen: Observed) -> frozenset[int] | None:
    """Return the processes that may have the ports; None if no agent runs."""
    document = seen.agent.document
    if document is None:
        return None
    pids = (entry(document, name).get("pid") for name in ("agent", "envoy"))
    return frozenset(pid for pid in pids if isinstance(pid, int))


def _is_own(config: DoctorConfig, listener: Listener) -> bool:
    """Return whether a socket is one of this agent's, or of another agent at the same address."""
    return runs(listener, config.own_programs) and any(
        _overlap(listener.host, use.host) for use in config.ports if use.port == listener.port
    )


def _stands_in_the_way(listener: Listener, use: PortUse, own: frozenset[int] | None) -> bool:
    if (listener.protocol, listener.port) != (use.protocol, use.port):
        return False
    if not _overlap(listener.host, use.host):
        return False
    if own is None:
        return True
    # Of one whose process may not be seen, nothing follows while the agent runs. An agent that
    # does not tell its own process can't be distinguished from others.
    return bool(own) and listener.pid is not None and listener.pid not in own


def _overlap(one: str, other: str) -> bool:
    """Return whether sockets at two addresses are in each other's way; the second may be a name."""
    if other == "localhost":
        return _overlap(one, "127.0.0.1") or _overlap(one, "::1")
    if not other:
        return True
    first, second = _plain(one), _plain(other)
    if first.is_unspecified or second.is_unspecified:
        return first.version == second.version or first == ipaddress.IPv6Address("::")
    return first == second


def _plain(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.version == 6 and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _finding(use: PortUse, holder: Listener) -> Finding:
    if holder.pid is None:
        who = f"a process of user {holder.uid} (root sees which)"
    else:
        who = f"process {holder.pid} ({holder.program or 'of an unknown name'})"
    host = f"[{use.host}]" if ":" in use.host else use.host
    where = f"{host or '*'}:{use.port}"
    return problem(
        CHECK,
        Cause.PORT_TAKEN,
        f"{use.protocol.value.upper()} port {where} ({use.use}) is taken by {who}",
        f"stop that process, or choose another port with {use.setting}",
    )
