"""Istio's, Kubernetes' and the Gateway API's YAML as typed objects, each mistake at its line.

A kind's fields stand in a module of its name: `istio_config.kinds.virtual_service`. The parts are
loaded when they are first used, so that reading an address loads no kind.
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it, without loading `typing`
if TYPE_CHECKING:
    from istio_config._file_content import (
        FileContent,
        FileReader,
        duplicate,
        object_key,
        read_content,
        unreadable,
    )
    from istio_config._folder import Configuration, read_folder
    from istio_config._objects import ConfigObject, ObjectKey, read_object
    from istio_config._origins import InFile, InStore
    from istio_config._snapshot import Snapshot, edited_snapshot, snapshot_of, with_objects
    from istio_config._snapshots import Snapshots
    from istio_config._tree import Tree, read_tree
    from istio_config._whole import whole_of

__all__ = [
    # read a folder, or the text of one file
    "Configuration",
    "FileContent",
    "FileReader",
    "Tree",
    "read_content",
    "read_folder",
    "read_tree",
    # one object
    "ConfigObject",
    "InFile",
    "InStore",
    "ObjectKey",
    "object_key",
    "read_object",
    # all objects that hold together
    "Snapshot",
    "Snapshots",
    "edited_snapshot",
    "snapshot_of",
    "whole_of",
    "with_objects",
    # problems
    "duplicate",
    "unreadable",
]

_LOADED_WHEN_USED = {
    "Configuration": "_folder",
    "ConfigObject": "_objects",
    "FileContent": "_file_content",
    "FileReader": "_file_content",
    "InFile": "_origins",
    "InStore": "_origins",
    "ObjectKey": "_objects",
    "Snapshot": "_snapshot",
    "Snapshots": "_snapshots",
    "Tree": "_tree",
    "duplicate": "_file_content",
    "edited_snapshot": "_snapshot",
    "object_key": "_file_content",
    "read_content": "_file_content",
    "read_folder": "_folder",
    "read_object": "_objects",
    "read_tree": "_tree",
    "snapshot_of": "_snapshot",
    "unreadable": "_file_content",
    "whole_of": "_whole",
    "with_objects": "_snapshot",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
