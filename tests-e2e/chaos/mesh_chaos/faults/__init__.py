"""What each fault does, and how it is undone; the mesh is well again when it returns."""

from collections.abc import Awaitable, Callable, Mapping

from mesh_chaos import _disks
from mesh_chaos._schedule import Fault, Kind
from mesh_chaos._tested_mesh import TestedMesh
from mesh_chaos.faults import (
    _authority,
    _clocks,
    _configuration,
    _memory,
    _peers,
    _processes,
    _resolving,
    _storage,
)

Act = Callable[[TestedMesh, Fault], Awaitable[None]]

ACTS: Mapping[Kind, Act] = {
    Kind.ENVOY_KILLED: _processes.envoy_killed,
    Kind.ENVOY_OUT_OF_MEMORY: _memory.envoy_out_of_memory,
    Kind.ENVOY_STOPPED: _processes.envoy_stopped,
    Kind.HOT_RESTART: _processes.hot_restart,
    Kind.AGENT_KILLED: _processes.agent_killed,
    Kind.AGENT_STARTS_ALONE: _processes.agent_starts_alone,
    Kind.AGENT_STOPPED: _processes.agent_stopped,
    Kind.AGENT_FEW_DESCRIPTORS: _processes.agent_few_descriptors,
    Kind.AGENT_FULL_DISK: _storage.agent_full_disk,
    Kind.AGENT_READ_ONLY_DISK: _storage.agent_read_only_disk,
    Kind.AGENT_CLOCK_JUMP: _clocks.agent_clock_jump,
    Kind.SAVED_STATE_CHANGED: _storage.saved_state_changed,
    Kind.SAVED_STATE_OLDER: _storage.saved_state_older,
    Kind.CONTROL_PLANE_KILLED: _processes.control_plane_killed,
    Kind.CONTROL_PLANE_AWAY: _processes.control_plane_away,
    Kind.CONTROL_PLANE_STOPPED: _processes.control_plane_stopped,
    Kind.SIGNERS_KILLED: _processes.signers_killed,
    Kind.CONTROL_PLANE_FEW_DESCRIPTORS: _processes.control_plane_few_descriptors,
    Kind.CONTROL_PLANE_FULL_DISK: _storage.control_plane_full_disk,
    Kind.CONTROL_PLANE_READ_ONLY_DISK: _storage.control_plane_read_only_disk,
    Kind.CONTROL_PLANE_CLOCK_JUMP: _clocks.control_plane_clock_jump,
    Kind.AUTHORITY_AWAY: _authority.authority_away,
    Kind.AUTHORITY_SLOW: _authority.authority_slow,
    Kind.NEW_ROOT: _authority.new_root,
    Kind.UNREAD_STREAMS: _peers.unread_streams,
    Kind.IDLE_CONNECTIONS: _peers.idle_connections,
    Kind.GOOD_EDIT: _configuration.good_edit,
    Kind.WRONG_EDIT: _configuration.wrong_edit,
    Kind.TWO_EDITS: _configuration.two_edits,
    Kind.DELETED_FILE: _configuration.deleted_file,
    Kind.RESOLVER_DEAD: _resolving.resolver_dead,
    Kind.RESOLVER_LYING: _resolving.resolver_lying,
}


def obstacles() -> dict[Kind, str]:
    """Return the faults that this machine can't do, each with the reason."""
    storage, memory, clocks = _disks.obstacle(), _memory.obstacle(), _clocks.obstacle()
    asked = {
        Kind.ENVOY_OUT_OF_MEMORY: memory,
        Kind.AGENT_FULL_DISK: storage,
        Kind.AGENT_READ_ONLY_DISK: storage,
        Kind.CONTROL_PLANE_FULL_DISK: storage,
        Kind.CONTROL_PLANE_READ_ONLY_DISK: storage,
        Kind.AGENT_CLOCK_JUMP: clocks,
        Kind.CONTROL_PLANE_CLOCK_JUMP: clocks,
        Kind.RESOLVER_DEAD: storage,
        Kind.RESOLVER_LYING: storage,
    }
    return {kind: reason for kind, reason in asked.items() if reason}
