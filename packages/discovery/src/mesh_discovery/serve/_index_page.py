"""The page at `/` of the monitoring port: what is there, for people and for browsers."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class ListedPage(NamedTuple):
    """A path of the port. query: what has to stand behind it; empty if nothing has."""

    path: str
    sentence: str
    query: str = ""


def text_index(pages: Sequence[ListedPage], *, note: str) -> str:
    """Return a line for each page, in columns, and the note."""
    width = max(len(each.path + each.query) for each in pages)
    lines = (f"{each.path + each.query:{width}}  {each.sentence}\n" for each in pages)
    return f"{''.join(lines)}\n{note}\n"


def html_index(pages: Sequence[ListedPage], *, note: str) -> str:
    """Return a table with a link to each page; those with a query have no link."""
    rows = "".join(
        f"<tr><td>{_shown(each)}</td><td>{escape(each.sentence)}</td></tr>\n" for each in pages
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<title>mesh-discovery</title></head>\n<body><h1>mesh-discovery</h1>\n"
        f"<table>\n{rows}</table>\n<p>{escape(note)}</p></body></html>\n"
    )


def wants_html(accept: str) -> bool:
    """Return whether a caller asks for HTML by name, as browsers do and curl does not."""
    kinds = (each.partition(";")[0].strip().lower() for each in accept.split(","))
    return "text/html" in kinds


def _shown(page: ListedPage) -> str:
    text = f"<code>{escape(page.path + page.query)}</code>"
    return text if page.query else f'<a href="{escape(page.path)}">{text}</a>'
