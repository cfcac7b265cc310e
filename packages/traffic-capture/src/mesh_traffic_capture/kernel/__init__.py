"""The machine: programs, routing, the lock, facts; in the calling thread's network namespace."""

from mesh_traffic_capture.kernel._facts import look_up_facts
from mesh_traffic_capture.kernel._files import read_text
from mesh_traffic_capture.kernel._lock import only_one
from mesh_traffic_capture.kernel._owners import opened_by, unmapped
from mesh_traffic_capture.kernel._programs import (
    Command,
    Done,
    find_program,
    has_net_admin,
    run_all,
    run_program,
    without_net_admin,
)
from mesh_traffic_capture.kernel._routing import (
    PASSED_ON_ADDRESS,
    MarkRoute,
    add_mark_route,
    add_passed_on_address,
    addresses,
    has_passed_on_address,
    mark_routes,
    out_interface,
    remove_mark_route,
    remove_passed_on_address,
)

__all__ = [
    "Command",
    "Done",
    "MarkRoute",
    "PASSED_ON_ADDRESS",
    "add_mark_route",
    "add_passed_on_address",
    "addresses",
    "find_program",
    "has_net_admin",
    "has_passed_on_address",
    "look_up_facts",
    "mark_routes",
    "only_one",
    "opened_by",
    "out_interface",
    "read_text",
    "unmapped",
    "remove_mark_route",
    "remove_passed_on_address",
    "run_all",
    "run_program",
    "without_net_admin",
]
