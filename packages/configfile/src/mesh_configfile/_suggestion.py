"""The word that was meant."""

from collections.abc import Collection


def nearest(word: str, known: Collection[str]) -> str | None:
    """Return the word that was meant, if one is close."""
    import difflib  # only a mistake needs it

    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.7)), None)


def suggestion(word: str, known: Collection[str], *, listed: bool = True) -> str:
    """Name the field that was meant, if one is close; else, if `listed`, all there are."""
    if (close := nearest(word, known)) is not None:
        return f"; did you mean {close}?"
    return f"; known here: {', '.join(sorted(known))}" if listed else ""
