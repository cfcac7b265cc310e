"""An adaptation: an extension that the Envoy lacks, what was done about it, and what is lost."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Action(StrEnum):
    """The change that was applied where a resource names an extension that the Envoy lacks.

    REMOVED: the extension was taken out. TRANSLATED: a stock extension, or the typed form of the
    same one, is in its place. DENIED: it protects something, and what is in its place denies
    requests. LEFT: nothing; the Envoy will refuse the resource.
    """

    REMOVED = "removed"
    TRANSLATED = "translated"
    DENIED = "denied"
    LEFT = "left"


class Change(NamedTuple):
    """One kind of adaptation.

    extension: its name, such as `istio.stats`.
    lost: in words what works no longer; empty if nothing is lost.
    """

    extension: str
    action: Action
    lost: str = ""


class Adaptation(NamedTuple):
    """A kind of adaptation and how often it was applied, in resources that went to Envoy."""

    extension: str
    action: Action
    lost: str
    times: int
