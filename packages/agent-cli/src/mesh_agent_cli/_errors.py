"""The one error that ends a command with a sentence."""

from __future__ import annotations

from mesh_command_line import CommandError


class CliError(CommandError):
    """A command of `mesh-agent` failed. Commands from other packages may raise it too."""
