"""The word that was meant."""

from collections.abc import Collection


def suggestion(word: str, known: Collection[str], *, listed: bool = True) -> str:
    """Name the field that was meant, if one is close; else, if `listed`, all there are."""
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known here: {', '.join(sorted(known))}" if listed else ""
