"""The debug pages by their names, as they are asked for over HTTP and over xDS.

Names, queries and JSON are those of Istio's control plane where it has the page.
"""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from mesh_discovery.debug._config_dump import SHORT_TYPES, Given, as_json, sections
from mesh_discovery.debug._proxies import short_id
from mesh_discovery.debug._sync_status import connections
from mesh_discovery.serve._debug_pages import DebugPages
from xds_server import ClientStatus, Resource

MOST_BYTES = 32 * 1024 * 1024
"""Of the messages in one page of JSON, which has several times as many itself."""

Query = Mapping[str, str]


class NoPage(Exception):
    """A page that can't be had, with the status and the text of the answer."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        self.status = status
        self.text = text
        super().__init__(text)


class NamedPages:
    """Makes the pages that have a name. Those of /debug/distribution alone has to wait."""

    def __init__(self, pages: DebugPages) -> None:
        self._pages = pages
        self._makers: Mapping[str, Callable[[Query, str | None], object]] = {
            "adsz": lambda _, within: connections(self._proxies(within), in_full=True),
            "config_dump": self._config_dump,
            "configz": lambda *_: pages.configz(),
            "connections": lambda _, within: connections(self._proxies(within), in_full=False),
            "ecdsz": lambda query, within: self._of_type("ecds", query, within),
            "edsz": lambda query, within: self._of_type("eds", query, within),
            "list": lambda *_: self.names,
            "mesh": lambda *_: pages.mesh(),
            "ndsz": lambda query, within: self._of_type("nds", query, within),
            "registryz": lambda *_: pages.registryz(),
            "status": lambda *_: pages.status(),
            "syncz": lambda query, within: pages.syncz(
                namespace=within if within is not None else query.get("namespace")
            ),
        }

    @property
    def names(self) -> list[str]:
        """The names of the pages, but for the list itself."""
        return [name for name in self._makers if name != "list"]

    def page(self, name: str, query: Query, *, namespace: str | None = None) -> object:
        """Return a page as values for JSON. Raises `NoPage`.

        namespace: the only one of whose proxies it may tell; None: it may tell of all.
        """
        if (make := self._makers.get(name)) is None:
            # istioctl knows these words for a page that there is not.
            raise NoPage(HTTPStatus.NOT_FOUND, "404 page not found\n")
        return make(query, namespace)

    def given(self, query: Query, namespace: str | None) -> Given:
        """Return the proxy that a query names. Raises `NoPage`."""
        proxy_id = query.get("proxyID", "")
        if not proxy_id:
            # istioctl knows these words, and those below.
            text = "You must provide a proxyID in the query string"
            raise NoPage(HTTPStatus.BAD_REQUEST, f"{text}: {self._known(namespace)}\n")
        if (found := self._pages.given(proxy_id, namespace=namespace)) is None:
            text = (
                "Proxy not connected to this Pilot instance. It may be connected to another "
                f"instance.\nno proxy {proxy_id[:256]!r} is connected; {self._known(namespace)}\n"
            )
            raise NoPage(HTTPStatus.NOT_FOUND, text)
        return found

    def _known(self, namespace: str | None) -> str:
        known = sorted({short_id(each.node.id) for each in self._proxies(namespace)})
        return f"give ?proxyID= one of: {', '.join(known) or 'none'}"

    def _proxies(self, namespace: str | None) -> list[ClientStatus]:
        return self._pages.proxies(namespace=namespace)

    def _config_dump(self, query: Query, namespace: str | None) -> object:
        if types := query.get("types"):
            return self._of_type(types, query, namespace)
        given = self.given(query, namespace)
        found = sections(given, with_endpoints="include_eds" in query)
        return as_json(_bounded(found))

    def _of_type(self, types: str, query: Query, namespace: str | None) -> object:
        given = self.given(query, namespace)
        wanted = [each.strip().lower() for each in types.split(",")]
        if unknown := sorted(set(wanted) - SHORT_TYPES.keys()):
            text = f"types: {', '.join(unknown)[:256]}: expected some of {', '.join(SHORT_TYPES)}\n"
            raise NoPage(HTTPStatus.BAD_REQUEST, text)
        found = [one for each in wanted for one in given.resources(SHORT_TYPES[each])]
        return as_json(_bounded(found))


def _bounded(found: Sequence[Resource]) -> Sequence[Resource]:
    size = sum(len(each.body) for each in found)
    if size > MOST_BYTES:
        raise NoPage(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"this page would have {size} bytes of messages, at most {MOST_BYTES} are shown: ask "
            "for some types of it, as with config_dump?types=cds\n",
        )
    return found


class Asked(NamedTuple):
    """The name of a page, and what its query says."""

    name: str
    query: Query


def asked_page(text: str) -> Asked:
    """Read `NAME?KEY=VALUE`, as istioctl writes it; of a key without `=` the value is empty."""
    parts = urlsplit(text)
    pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=20)
    return Asked(parts.path.strip("/"), dict(pairs))
