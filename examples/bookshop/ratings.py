"""Has the numbers of stars. `/fail?30` makes this replica answer 503 for so many seconds."""

import time

from answering import as_json, serve

failing = {"until": 0.0}


def answer(path: str, _headers: dict[str, str]) -> tuple[int, str, str]:
    """Answer with the stars, unless this replica is to fail now."""
    if path.startswith("/fail?"):
        failing["until"] = time.monotonic() + float(path.partition("?")[2])
        return as_json(failing=True)
    if time.monotonic() < failing["until"]:
        return as_json(503, reason="failing, as asked")
    return as_json(stars=[5, 4])


serve(answer)
