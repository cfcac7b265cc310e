"""Certificates of a short life, renewed under constant load for a while.

    python tests-e2e/soak_rotation.py [--lifetime 20] [--seconds 120] [--rate 100]

Prints what happened and exits 1 if any request failed or a serial did not change.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

from mesh_e2e import rotate, soaked


def main() -> int:
    outcome, options = soaked(rotate, __doc__, lifetime_s=20, seconds=120, rate=100)
    failures = [*outcome.through_envoys.failures, *outcome.handshakes.failures]
    expected = int(options.seconds / (options.lifetime / 2))
    lines = [
        f"through two Envoys: {outcome.through_envoys.summary()}",
        f"new TLS handshakes: {outcome.handshakes.summary()}",
        f"certificates presented: {len(outcome.presented)} (at least {expected} expected)",
        *(f"  {serial}" for serial in outcome.presented),
        *(f"failure: {failure.what}" for failure in failures[:20]),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if failures or len(outcome.presented) < expected else 0


if __name__ == "__main__":
    sys.exit(main())
