"""The `dns` screen: how the agent answers a query, and by which rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

from mesh_agent_cli._http import fetch_object, local_url
from mesh_agent_cli.screens._fields import objects, sequence, text
from mesh_agent_cli.screens._terminal import Row, Screen, Tone, rows

_TIMEOUT_S = 8.0
"""An upstream resolver may take 4.5 s."""


def fetch_explanation(
    name: str, record_type: str, *, address: str, port: int
) -> Mapping[str, object]:
    """Ask the agent's /debug/dns. Raises CliError."""
    query = urlencode({"name": name, "type": record_type})
    return fetch_object(
        local_url(address, port, f"debug/dns?{query}"),
        purpose=f"ask the agent about {name!r}",
        program="a mesh-agent of this version",
        timeout_s=_TIMEOUT_S,
    )


def render_explanation(found: Mapping[str, object], *, out: Screen) -> str:
    """Return the screen."""
    return "\n".join(rows(_rows(found), out))


def _rows(found: Mapping[str, object]) -> Iterator[Row]:
    code = text(found, "code")
    answers = objects(found, "answers")
    yield Row("query", f"{text(found, 'name') or '-'} {text(found, 'type')}".rstrip())
    yield Row("rule", _rule(found))
    upstreams = ", ".join(map(str, sequence(found, "upstreams")))
    yield Row("asked", _origin(found, upstreams))
    if code == "NOERROR" and not answers:
        yield Row("answer", "no record of this type (NOERROR)", Tone.DOUBTFUL)
    elif code != "NOERROR":
        yield Row("answer", _CODES.get(code, code or "-"), Tone.BAD)
    for number, each in enumerate(answers):
        record = (text(each, key) for key in ("name", "ttl_s", "type", "data"))
        yield Row("answer" if number == 0 else "", " ".join(record), Tone.GOOD)


_CODES: Mapping[str, str] = {
    "NXDOMAIN": "no such name (NXDOMAIN)",
    "SERVFAIL": "no answer could be had (SERVFAIL)",
    "REFUSED": "refused (REFUSED)",
}


def _rule(found: Mapping[str, object]) -> str:
    host = text(found, "host")
    origin = ", ".join(
        filter(
            None,
            (
                text(found, "registry"),
                f"namespace {text(found, 'namespace')}" if text(found, "namespace") else "",
            ),
        )
    )
    entry = f"{host} ({origin})" if origin else host
    alias, wildcard = text(found, "alias_of"), text(found, "wildcard")
    sentences = {
        "host": f"the name table has {entry}",
        "short_name": f"short for {entry}, or another name of it",
        "wildcard": f"below the wildcard {wildcard}: the name table has {entry}",
        "search_domain": f"a search domain behind {alias}: CNAME to it; the name table has {entry}",
        "address": "a host of the name table has this address",
        "other_type": f"the name table has {entry}, but no {text(found, 'type')}: forwarded",
        "not_in_table": "the name table does not have it: forwarded",
        "no_table": "there has been no name table yet",
        "refused": "queries of this kind are refused",
    }
    rule = text(found, "rule")
    return sentences.get(rule, rule or "-")


def _origin(found: Mapping[str, object], upstreams: str) -> str:
    by = text(found, "upstream")
    sentences = {
        "upstream": f"{by} answered (of {upstreams})" if upstreams else f"{by} answered",
        "cache": "no one now: an earlier reply still holds",
        "stale": f"{upstreams}, which did not answer in time: an expired reply is used",
        "none": f"{upstreams}: no answer" if upstreams else "no one: there is no upstream resolver",
    }
    return sentences.get(text(found, "origin"), text(found, "origin"))
