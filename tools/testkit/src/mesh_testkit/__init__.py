"""A pytest plugin: leak checks, golden files, and the event loop that the commands run on."""

from mesh_testkit._golden import Golden
from mesh_testkit._ports import find_free_port

__all__ = ["Golden", "find_free_port"]
