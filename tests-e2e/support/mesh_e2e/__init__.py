"""What the end-to-end tests share: meshes, load, certificates and a look at the machine."""

from mesh_e2e._agents import (
    ROOT,
    SDS_SOCKET,
    TOKEN,
    Agent,
    Servers,
    agent_environment,
    environment_of,
    own_address,
    put,
    running_agent,
    servers,
)
from mesh_e2e._beside import environment_beside, has_all, until_status
from mesh_e2e._certificates import (
    ForeignAuthority,
    client_context,
    mesh_client_context,
    presented_certificate,
    presented_serial,
)
from mesh_e2e._colour import COLOUR_MESH, colour, colour_at, configure_colour
from mesh_e2e._control_plane import another_control_plane, kill_control_plane, until_listening
from mesh_e2e._envoy import admin, envoy_serials, requests_open, requests_open_at
from mesh_e2e._greeters import EXAMPLE, Calls, bootstrap_of, calling, greeted, node_programs
from mesh_e2e._guides import Block, Shell, blocks_of, differences, shell
from mesh_e2e._identity import Audited, is_below, issued_to, trusted_roots
from mesh_e2e._load import Failure, Load, LoadReport, Target, Unanswered, constant_load, send
from mesh_e2e._machine import alive, children_of, command_line, last_words, shared_memory_of
from mesh_e2e._meshes import ECHO, mesh_of, run_command
from mesh_e2e._nuisances import idle_connections, stalled_streams
from mesh_e2e._reader import Reader, lasting, own_network
from mesh_e2e._rotation import RotationOutcome, rotate
from mesh_e2e._secrets import Secret, secret_key, secret_token, secrets_on_disk
from mesh_e2e._short_lives import (
    expiry,
    failures_before,
    handshake_each,
    renewal_interval_s,
    renewing_early,
    short_lived,
)
from mesh_e2e._troubles import TROUBLES, Case, Plane, Workload, plane, screens_of, workload

__all__ = [
    "shell",
    "differences",
    "blocks_of",
    "agent_environment",
    "COLOUR_MESH",
    "ECHO",
    "EXAMPLE",
    "ROOT",
    "SDS_SOCKET",
    "TOKEN",
    "TROUBLES",
    "Agent",
    "Audited",
    "Block",
    "Calls",
    "Case",
    "Failure",
    "ForeignAuthority",
    "Load",
    "LoadReport",
    "Plane",
    "Reader",
    "RotationOutcome",
    "Secret",
    "Shell",
    "Servers",
    "Target",
    "Unanswered",
    "admin",
    "alive",
    "another_control_plane",
    "bootstrap_of",
    "calling",
    "children_of",
    "client_context",
    "colour",
    "colour_at",
    "command_line",
    "configure_colour",
    "constant_load",
    "environment_beside",
    "environment_of",
    "envoy_serials",
    "expiry",
    "failures_before",
    "greeted",
    "handshake_each",
    "has_all",
    "idle_connections",
    "is_below",
    "kill_control_plane",
    "last_words",
    "lasting",
    "issued_to",
    "mesh_client_context",
    "mesh_of",
    "node_programs",
    "own_address",
    "own_network",
    "plane",
    "presented_certificate",
    "presented_serial",
    "put",
    "renewal_interval_s",
    "renewing_early",
    "requests_open",
    "requests_open_at",
    "rotate",
    "run_command",
    "running_agent",
    "screens_of",
    "secret_key",
    "secret_token",
    "secrets_on_disk",
    "send",
    "servers",
    "shared_memory_of",
    "short_lived",
    "stalled_streams",
    "trusted_roots",
    "until_listening",
    "until_status",
    "Workload",
    "workload",
]
