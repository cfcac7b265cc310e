"""Other processes: waiting for the end of one that others started, and running an application.

Loaded when it is used: `import mesh_lifecycle` alone does not bring it. Linux.
"""

from mesh_lifecycle.processes._application import Application, ApplicationError, start_application
from mesh_lifecycle.processes._handle import ProcessHandle
from mesh_lifecycle.processes._named import named_processes, wait_named_end

__all__ = [
    # processes that others started
    "ProcessHandle",
    "named_processes",
    "wait_named_end",
    # an application that is started here
    "Application",
    "ApplicationError",
    "start_application",
]
