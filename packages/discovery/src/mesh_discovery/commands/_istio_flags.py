"""Takes the flags of Istio's control plane that have no effect here out of a command line."""

import typer
from typer.core import TyperCommand

from mesh_command_line import FlagValueError, sort_flags
from mesh_discovery.settings._flags import NOT_HONOURED

_PASSED = "mesh_discovery.passed_flags"


def passed_flags(context: typer.Context) -> tuple[tuple[str, str], ...]:
    """Return these flags with their values; of one that stands alone, the value is empty."""
    passed: tuple[tuple[str, str], ...] = context.meta.get(_PASSED, ())
    return passed


class DiscoveryCommand(TyperCommand):
    """A command that takes them. A flag that no release of Istio has had is an error, as before."""

    def parse_args(  # type: ignore[override]  # typer's contexts are all of this class
        self, ctx: typer.Context, args: list[str]
    ) -> list[str]:
        """Read the command's own flags, also in Go's form `--flag=true`; keep the others."""
        own = {
            spelling: not getattr(each, "is_flag", False)
            for each in self.get_params(ctx)
            for spelling in each.opts
            if spelling.startswith("-")
        }
        known = {each.name: each for each in NOT_HONOURED}
        booleans = [name for name, each in known.items() if each.boolean]
        try:
            kept, passed = sort_flags(args, own=own, booleans=booleans)
        except FlagValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx) from error
        ctx.meta[_PASSED] = tuple((name, value) for name, value in passed if name in known)
        unknown = [name for name, _ in passed if name not in known]
        return super().parse_args(ctx, [*unknown, *kept])
