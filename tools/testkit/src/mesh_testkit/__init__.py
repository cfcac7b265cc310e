"""A pytest plugin: leak checks, golden files, and the event loop that the commands run on."""

from mesh_testkit._golden import Golden
from mesh_testkit._mounts import hanging_mount
from mesh_testkit._ports import find_free_port
from mesh_testkit._waiting import PATIENCE_S, until

__all__ = ["PATIENCE_S", "Golden", "find_free_port", "hanging_mount", "until"]
