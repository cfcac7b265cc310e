"""Where tokens are exchanged for the application, and who is asked for them.

Further sources of tokens are found by name in the entry-point group `mesh_agent.token_exchangers`:
a function that is given the environment and returns a `mesh_token_exchange.Exchanger`; it raises
ValueError, with a sentence, for what is wrong there. Nothing of this is loaded without a port.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from istio_settings import Settings
from mesh_agent.config._flags import Flags

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from mesh_token_exchange import Exchanger, Rfc8693Config

GROUP = "mesh_agent.token_exchangers"
BUILT_IN = "Rfc8693"
_GOOGLE = "GoogleTokenExchange"
_PREFIX = "MESH_AGENT_STS_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenExchangeConfig:
    """Where tokens are exchanged, and by what.

    host: an address of this machine only.
    plugin: the name of the source of tokens.
    server: the authorization server; None if another package's plugin knows it.
    exchanger: that plugin's; None where the server is asked.
    """

    host: str
    port: int
    plugin: str
    server: "Rfc8693Config | None" = None
    exchanger: "Exchanger | None" = field(default=None, repr=False)


def token_exchange_config(settings: Settings, flags: Flags) -> TokenExchangeConfig | None:
    """Return how tokens are exchanged; None if no port is given for it."""
    if not flags.sts_port:
        return None
    if not 0 < flags.sts_port < 65536:
        settings.problems.append(f"--stsPort is {flags.sts_port}, it must be a port, 1 to 65535")
        return None
    plugin = flags.token_manager_plugin or BUILT_IN
    installed = _installed(plugin)
    if installed is not None:
        return _of_plugin(settings, flags, plugin, installed)
    if plugin != BUILT_IN:
        settings.problems.append(_unknown(plugin))
        return None
    if (server := _authorization_server(settings)) is None:
        return None
    return TokenExchangeConfig(
        host=_host(settings), port=flags.sts_port, plugin=plugin, server=server
    )


def _authorization_server(settings: Settings) -> "Rfc8693Config | None":
    from mesh_token_exchange import InvalidConfig, Rfc8693Config

    url = settings.text(f"{_PREFIX}URL")
    if not url:
        settings.problems.append(
            f"--stsPort is given, but {_PREFIX}URL is not set: name the token endpoint of the "
            "authorization server, https://HOST/PATH, or leave --stsPort out"
        )
        return None
    secret = settings.text(f"{_PREFIX}CLIENT_SECRET_FILE")
    root = settings.text(f"{_PREFIX}ROOT_FILE")
    try:
        return Rfc8693Config(
            url=url,
            client_id=settings.text(f"{_PREFIX}CLIENT_ID"),
            client_secret_file=settings.under(secret) if secret else None,
            audience=_listed(settings, "AUDIENCE"),
            resource=_listed(settings, "RESOURCE"),
            scope=settings.text(f"{_PREFIX}SCOPE"),
            root_certificate=settings.under(root) if root else None,
        )
    except InvalidConfig as error:
        settings.problems.append(f"{_PREFIX}*, the authorization server of --stsPort: {error}")
        return None


def _listed(settings: Settings, name: str) -> tuple[str, ...]:
    text = settings.text(f"{_PREFIX}{name}")
    return tuple(item for item in (part.strip() for part in text.split(",")) if item)


def _installed(plugin: str) -> "EntryPoint | None":
    if plugin == BUILT_IN:
        return None
    from importlib.metadata import entry_points

    return next(iter(entry_points(group=GROUP, name=plugin)), None)


def _of_plugin(
    settings: Settings, flags: Flags, plugin: str, installed: "EntryPoint"
) -> TokenExchangeConfig | None:
    try:
        make: Callable[[Mapping[str, str]], Exchanger] = installed.load()
        exchanger = make(settings.environ)
    except Exception as error:  # noqa: BLE001 - it is other people's code, and named in the message
        settings.problems.append(f"--tokenManagerPlugin {plugin} can't be used: {error}")
        return None
    return TokenExchangeConfig(
        host=_host(settings),
        port=flags.sts_port,
        plugin=plugin,
        exchanger=exchanger,
    )


def _unknown(plugin: str) -> str:
    instead = (
        f"leave it out and name an authorization server in {_PREFIX}URL, or install a package that "
        f"offers {plugin} in the entry-point group {GROUP}"
    )
    if plugin == _GOOGLE:
        return (
            f"--tokenManagerPlugin is {plugin}, the exchange at Google's own service, which the "
            f"agent does not have: {instead}"
        )
    return f"--tokenManagerPlugin is {plugin!r}, and there is none of that name: {instead}"


def _host(settings: Settings) -> str:
    """Return localhost, or the agent's own address if it has one that is on this machine only."""
    bound = settings.text("MESH_AGENT_BIND_ADDRESS")
    return bound if bound.startswith("127.") or bound == "::1" else "localhost"
