"""A pytest plugin: leak checks, golden files, and the event loop that the commands run on."""

from mesh_testkit._differences import Json, differences, with_differences
from mesh_testkit._disks import SmallDisk, small_disk
from mesh_testkit._golden import Golden
from mesh_testkit._idle import all_closed, idle_connections, some_closed
from mesh_testkit._mounts import hanging_mount
from mesh_testkit._ports import find_free_port
from mesh_testkit._printing import PRINTING_VARIABLES, plain_environment
from mesh_testkit._waiting import PATIENCE_S, until

__all__ = [
    "PATIENCE_S",
    "PRINTING_VARIABLES",
    "Golden",
    "Json",
    "SmallDisk",
    "all_closed",
    "differences",
    "find_free_port",
    "hanging_mount",
    "idle_connections",
    "plain_environment",
    "small_disk",
    "some_closed",
    "until",
    "with_differences",
]
