"""Suggestions for misspelt words."""

from collections.abc import Collection


def nearest(word: str, known: Collection[str]) -> str | None:
    """Return the known word that is most similar, if one is similar enough."""
    import difflib  # here, because only a mistake needs it

    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.7)), None)


def suggestion(word: str, known: Collection[str], *, listed: bool = True) -> str:
    """Return text with the most similar known word; without one, if `listed`, with all of them."""
    if (close := nearest(word, known)) is not None:
        return f"; did you mean {close}?"
    return f"; known here: {', '.join(sorted(known))}" if listed else ""
