"""Other processes: waiting for the end of one, starting some that end with this one.

Loaded when it is used: `import mesh_lifecycle` alone does not bring it. Linux.
"""

from mesh_lifecycle.processes._application import Application, ApplicationError, start_application
from mesh_lifecycle.processes._handle import ProcessHandle
from mesh_lifecycle.processes._named import named_processes, wait_named_end
from mesh_lifecycle.processes._tied import NotExecuted, start_tied, tied_command

__all__ = [
    # processes that others started
    "ProcessHandle",
    "named_processes",
    "wait_named_end",
    # an application that is started here
    "Application",
    "ApplicationError",
    "start_application",
    # programs that end with this process
    "NotExecuted",
    "start_tied",
    "tied_command",
]
