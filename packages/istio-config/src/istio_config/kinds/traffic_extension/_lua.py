"""A script in Lua that stands in the object itself."""

from collections.abc import Iterator

from istio_config.kinds.fields import SpecFields
from mesh_configfile.shapes import Finding

_MOST_BYTES = 65_536


class LuaConfig(SpecFields, frozen=True):
    """A script with `envoy_on_request` or `envoy_on_response`."""

    inline_code: str = ""


def lua_mistakes(lua: LuaConfig) -> Iterator[Finding]:
    """Yield what is wrong with a script; paths start below `lua`."""
    if not lua.inline_code:
        yield ("inlineCode",), "is empty: give a script"
    elif (size := len(lua.inline_code.encode())) > _MOST_BYTES:
        yield ("inlineCode",), f"has {size} bytes, at most {_MOST_BYTES} are taken"


def lua_warnings(lua: LuaConfig) -> Iterator[Finding]:
    """Yield what Envoy takes and never calls; paths start below `lua`."""
    if not any(f"envoy_on_{each}" in lua.inline_code for each in ("request", "response")):
        yield (
            ("inlineCode",),
            "has neither envoy_on_request nor envoy_on_response: Envoy calls nothing of it",
        )
