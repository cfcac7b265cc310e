"""The rules of the Gateway API that hold for several kinds of routes."""

from collections.abc import Iterator, Sequence

from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding
from mesh_discovery.config.kinds.gateway_api._headers import ValueMatch
from mesh_discovery.config.kinds.gateway_api._names import wrong_hostname, wrong_section_name

MOST_RULES = 16
MOST_HOSTNAMES = 16
MOST_MATCHES = 64
MOST_MATCHES_IN_ALL = 128

NO_PERSISTENCE = (
    "session persistence is not supported yet (a DestinationRule's consistentHash by a cookie "
    "does much the same)"
)


def lacking_default_gateways(choice: str) -> Iterator[Finding]:
    """Yield that a route can't attach to a default Gateway."""
    if choice != "None":
        yield ("useDefaultGateways",), "a default Gateway is not supported yet"


def check_hostnames(hostnames: Sequence[str]) -> Iterator[Finding]:
    """Yield what is wrong with the hostnames of a route."""
    if len(hostnames) > MOST_HOSTNAMES:
        yield ("hostnames",), f"has {len(hostnames)} entries; {MOST_HOSTNAMES} are allowed"
    for index, each in enumerate(hostnames):
        if text := wrong_hostname(each):
            yield ("hostnames", index), text


def check_rules(
    names: Sequence[str | None], matches: Sequence[int] = (), *, least: int = 0
) -> Iterator[Finding]:
    """Yield what is wrong with the rules as a whole, given their names and numbers of matches."""
    if not least <= len(names) <= MOST_RULES:
        number = f"{least} to {MOST_RULES}" if least else f"{MOST_RULES} at most"
        yield ("rules",), f"has {len(names)} entries; there may be {number}"
    known: set[str] = set()
    for index, name in enumerate(names):
        if name is None:
            continue
        place = ("rules", index, "name")
        if text := wrong_section_name(name):
            yield place, text
        if name in known:
            yield place, f'the name "{name}" is given twice'
        known.add(name)
    for index, count in enumerate(matches):
        if count > MOST_MATCHES:
            yield ("rules", index, "matches"), f"has {count} entries; {MOST_MATCHES} are allowed"
    if sum(matches) > MOST_MATCHES_IN_ALL:
        yield (
            ("rules",),
            f"have {sum(matches)} matches in all; {MOST_MATCHES_IN_ALL} are allowed in one route",
        )


def repeated_names(matches: Sequence[ValueMatch], place: FieldPath) -> Iterator[Finding]:
    """Yield the headers that differ from earlier ones in upper and lower case alone."""
    first: dict[str, str] = {}
    for index, each in enumerate(matches):
        known = first.setdefault(each.name.lower(), each.name)
        if known != each.name:
            yield (*place, index), f"has no effect: {known} above is the same header"
