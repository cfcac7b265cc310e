"""The errors of this package."""


class TrafficCaptureError(Exception):
    """The root of this package's errors; `str()` is a whole sentence."""


class InvalidCapture(TrafficCaptureError, ValueError):
    """A configuration, flags or variables say something that can't be; `mistakes` has all of it."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes


class LockTimedOut(TrafficCaptureError):
    """Another process was applying or cleaning in this network namespace all the time."""


class CaptureFailed(TrafficCaptureError):
    """A program or the kernel did not do what was asked; the message says what to do."""
