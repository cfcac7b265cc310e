"""The errors of this package."""


class ProbeConfigError(ValueError):
    """Probes that can't be used; each problem is a sentence that names the probe and the field."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class CheckFailed(Exception):
    """A check that came to no answer; str() is the reason. It does not leave the package."""
