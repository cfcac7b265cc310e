"""The command line `mesh-discovery`, put together of its subcommands."""

import sys

from mesh_command_line.typer_application import add_documents, application, run
from mesh_discovery._version import version as installed_version
from mesh_discovery.commands._authority import replace_root, revoke
from mesh_discovery.commands._check import check
from mesh_discovery.commands._discovery import discovery
from mesh_discovery.commands._examples import EXAMPLES
from mesh_discovery.commands._istio_flags import DiscoveryCommand
from mesh_discovery.commands._status import status
from mesh_discovery.commands._token import token
from mesh_discovery.commands._version import version
from mesh_discovery.commands._wait import wait

NAME = "mesh-discovery"

app = application(
    NAME,
    about="A control plane: Istio YAML in, Envoy configuration and certificates out.",
    version=installed_version,
)
for _name, _command in (
    ("version", version),
    ("check", check),
    ("status", status),
    ("wait", wait),
    ("token", token),
    ("replace-root", replace_root),
    ("revoke", revoke),
):
    app.command(_name, epilog=EXAMPLES[_name])(_command)
app.command("discovery", cls=DiscoveryCommand, epilog=EXAMPLES["discovery"])(discovery)
add_documents(app, name=NAME)


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(app, sys.argv[1:], name=NAME))
