"""Instruments that measure nothing, for servers without a registry.

They spare such a process the metrics library, which is 1.6 MB: a server of secrets beside every
workload has better use for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from xds_server.monitoring._metrics import Metrics


class _Silent:
    """Stands for each instrument, and records nothing."""

    def labels(self, *_: str) -> _Silent:
        return self

    def inc(self, *_: object) -> None: ...

    def dec(self, *_: object) -> None: ...

    def observe(self, _: float) -> None: ...


_SILENT = _Silent()


class _NoMetrics:
    def __getattr__(self, _: str) -> _Silent:
        return _SILENT

    def on_nack(self, _: str) -> None: ...

    def on_response(self, _: str, **_measured: float) -> None: ...


def no_metrics() -> Metrics:
    """Instruments by the same names."""
    return cast("Metrics", _NoMetrics())
