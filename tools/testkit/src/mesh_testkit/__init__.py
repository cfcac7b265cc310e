"""A pytest plugin: leak checks, golden files, and the event loop that the commands run on."""

from mesh_testkit._golden import Golden

__all__ = ["Golden"]
