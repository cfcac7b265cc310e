"""A fake Envoy executable that behaves as badly as a test wants.

For tests of whatever runs Envoy: it takes Envoy's arguments, reads the admin address from the
bootstrap, and answers the admin calls this package makes.
"""

from envoy_supervisor.testing._fake import FakeEnvoy, FakeEnvoyFiles, fake_envoy

__all__ = ["FakeEnvoy", "FakeEnvoyFiles", "fake_envoy"]
