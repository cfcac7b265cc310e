"""The page that the browser shows, put together of what the other services answer."""

from html import escape

from answering import call, serve

STYLE = """
body { font: 17px/1.5 system-ui, sans-serif; max-width: 40em; margin: 3em auto; color: #222 }
h1 { margin-bottom: 0 } .by { color: #777; font-size: 14px } .red { color: #c22 }
blockquote { border-left: 4px solid #ddd; margin: 1em 0; padding: 0.2em 1em } .wrong { color: #b00 }
"""


def stars(reviews: dict, index: int) -> str:
    """Show the stars of a review, if it has some."""
    found = reviews.get("stars")
    if found is None:
        return ""
    number = found["numbers"][index]
    return f'<div class="{escape(found["colour"])}">{"★" * number}{"☆" * (5 - number)}</div>'


def answer(_path: str, headers: dict[str, str]) -> tuple[int, str, str]:
    """Put the page together; what is missing is told in its place."""
    known, details = call("http://details:9080/", headers)
    found, reviews = call("http://reviews:9080/", headers)
    parts = [f"<!doctype html><title>Bookshop</title><style>{STYLE}</style>"]
    if known == 200:
        parts.append(f"<h1>{escape(details['title'])}</h1><p>by {escape(details['author'])}</p>")
    else:
        parts.append(f'<h1 class="wrong">No details: {escape(details["reason"])}</h1>')
    if found == 200:
        for index, text in enumerate(reviews["texts"]):
            parts.append(f"<blockquote>{escape(text)}{stars(reviews, index)}</blockquote>")
        by = f"reviews by {reviews['by']}"
        if "stars" in reviews:
            by += f", stars by {reviews['stars']['by']}"
        parts.append(f'<p class="by">{escape(by)}</p>')
        if "missing" in reviews:
            parts.append(f'<p class="wrong">No stars: {escape(reviews["missing"])}</p>')
    else:
        parts.append(f'<p class="wrong">No reviews: {escape(reviews["reason"])}</p>')
    return 200, "text/html; charset=utf-8", "\n".join(parts)


serve(answer)
