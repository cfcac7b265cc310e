"""The words behind the commands: Istio's flags, those of our own, and their help."""

from __future__ import annotations

from mesh_traffic_capture._errors import InvalidCapture
from mesh_traffic_capture._value import value
from mesh_traffic_capture.config import ISTIO_FLAGS, IstioFlag, read_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

EXPLAIN: Final = "explain"
_JSON: Final = "json"
_OUTPUT: Final = ("-o", "--output")
"""`-o` is Istio's for outbound ports that are excluded, too: no port is called json."""
_HELP: Final = frozenset({"-h", "--help", "help"})
_VERSION: Final = "--version"

COMMAND_FLAGS: Final = (
    IstioFlag(name="json", is_switch=True, meaning="print one JSON object; -o json is the same"),
)
EXPLAIN_FLAGS: Final = (
    IstioFlag(
        name="from",
        meaning="who sends the packet: uid=1000, gid=1000 or both for a process of this machine, "
        "and an address, with a port or without; an address alone is another machine's",
    ),
    IstioFlag(name="to", meaning="where it goes: 10.0.0.1:80 or [2001:db8::1]:80"),
    IstioFlag(name="protocol", default="tcp", meaning="the protocol: tcp or udp"),
    IstioFlag(
        name="interface",
        meaning="by which it comes or leaves; else as the kernel routes",
    ),
)


EXAMPLES: Final = (
    "-p 15001 -z 15006 -u 1337 -m REDIRECT -i '*' -b '*' -d 15090,15021,15020",
    "-i '*' -b '*' --dry-run",
)
EXPLAIN_EXAMPLES: Final = (
    "--from uid=1000 --to 10.0.0.1:80",
    "--from 192.0.2.9 --to 10.0.0.1:8080 -b '*' -d 8080",
)
CLEAN_EXAMPLES: Final = ("", "--dry-run --network-namespace /var/run/netns/web")


class UnknownFlag(InvalidCapture):
    """A word that is no flag, or a flag without its value."""


@value
class Words:
    """A command line, sorted."""

    flags: Mapping[str, str]
    """Istio's, by name."""
    explain: Mapping[str, str] | None
    """The flags of `explain`, if that is asked for."""
    as_json: bool
    wants_help: bool
    wants_version: bool


def sort_words(words: Sequence[str]) -> Words:
    """Sort the words behind a command's name; raises `UnknownFlag`."""
    rest = list(words)
    explains = rest[:1] == [EXPLAIN]
    if explains:
        del rest[0]
    if not _HELP.isdisjoint(rest):
        return _asking({} if explains else None, wants_help=True)
    if _VERSION in rest:
        return _asking(None, wants_version=True)
    own = (*COMMAND_FLAGS, *EXPLAIN_FLAGS) if explains else COMMAND_FLAGS
    rest, as_json = _without_output(rest)
    try:
        values = read_arguments(rest, also=own)
    except InvalidCapture as error:
        raise UnknownFlag(error.mistakes) from None
    named = {each.name for each in own}
    return Words(
        flags={name: text for name, text in values.items() if name not in named},
        explain={name: text for name, text in values.items() if name in named}
        if explains
        else None,
        as_json=as_json or values.get("json", "false") == "true",
        wants_help=False,
        wants_version=False,
    )


def _asking(
    explain: Mapping[str, str] | None, *, wants_help: bool = False, wants_version: bool = False
) -> Words:
    return Words(
        flags={},
        explain=explain,
        as_json=False,
        wants_help=wants_help,
        wants_version=wants_version,
    )


def _without_output(words: list[str]) -> tuple[list[str], bool]:
    """Take `-o json`, in all its forms, off the words."""
    kept: list[str] = []
    found = False
    for word in words:
        if word == _JSON and kept and kept[-1] in _OUTPUT:
            del kept[-1]
            found = True
        elif word in {f"-o{_JSON}", *(f"{each}={_JSON}" for each in _OUTPUT)}:
            found = True
        else:
            kept.append(word)
    return kept, found


def help_text(name: str, *, explains: bool = False, cleans: bool = False) -> str:
    """Return the help of a command."""
    if cleans:
        about = (
            "Remove the rules that steer traffic through Envoy, and all that they needed.\n\n"
            "Those of ours and of Istio's tools, by whatever flags they were applied: no flag is "
            "needed.\nFlags of `iptables` are taken, and of their values only those of --dry-run "
            "and\n--network-namespace are read."
        )
        flags: tuple[IstioFlag, ...] = ()
        examples = CLEAN_EXAMPLES
    elif explains:
        about = (
            "Tell what the rules do with one packet, and which rule decides.\n\n"
            "Without flags of a configuration, the rules that nft has in the kernel are asked, "
            "which takes root;\nwith some, the rules that they would make, which takes nothing."
        )
        flags = EXPLAIN_FLAGS
        examples = EXPLAIN_EXAMPLES
    else:
        about = (
            "Apply the rules that steer traffic through Envoy, with the flags and variables of "
            "Istio's tool.\n\n"
            "A flag's variable is its name in capitals, with _ for -; the flag is stronger.\n"
            f"`{name} {EXPLAIN}`, with --from, --to, --protocol and --interface,\n"
            "asks what the rules do with one packet."
        )
        flags = ()
        examples = EXAMPLES
    shown = (
        tuple(each for each in ISTIO_FLAGS if each.name in {"dry-run", "network-namespace"})
        if cleans
        else ISTIO_FLAGS
    )
    usage = f"{name} {EXPLAIN}" if explains else name
    lines = [f"Usage: {usage} [OPTIONS]", "", about, "", "Options:"]
    lines += [line for each in (*flags, *COMMAND_FLAGS, *shown) for line in _lines(each)]
    lines += ["      --version", "          print the version"] if not explains else []
    lines += ["", "  Examples:", *(f"    {usage} {words}".rstrip() for words in examples)]
    status = "Exit status: 0, 1 for a failure or a value that is wrong, 255 for another flag"
    if not cleans and not explains:
        status += ",\n126 if traffic did not arrive where --run-validation had it sent"
    return "\n".join((*lines, "", f"{status}.", ""))


def _lines(flag: IstioFlag) -> tuple[str, str]:
    short = f"-{flag.short}, " if flag.short else "    "
    takes = "" if flag.is_switch else " VALUE"
    default = f"  [default: {flag.default}]" if flag.default not in {"", "false"} else ""
    return f"  {short}--{flag.name}{takes}", f"          {flag.meaning}{default}"
