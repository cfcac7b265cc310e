"""Has two reviews of the book; two of its three versions show stars, in a colour of their own."""

import sys

from answering import as_json, call, serve

COLOUR = sys.argv[1]
TEXTS = ("An extremely entertaining play.", "Absolutely fun and entertaining.")


def answer(_path: str, headers: dict[str, str]) -> tuple[int, str, str]:
    """Answer with the reviews, and with their stars where this version has any."""
    seen_as = headers.get("x-forwarded-client-cert", "")
    if COLOUR == "none":
        return as_json(texts=TEXTS, caller=seen_as)
    status, ratings = call("http://ratings:9080/", headers)
    if status != 200:
        return as_json(texts=TEXTS, caller=seen_as, missing=ratings["reason"])
    stars = {"colour": COLOUR, "numbers": ratings["stars"], "by": ratings["by"]}
    return as_json(texts=TEXTS, caller=seen_as, stars=stars)


serve(answer)
