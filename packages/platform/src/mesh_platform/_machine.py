"""Which provider a machine is from, by the tables of its firmware (DMI); nothing is sent.

Sources: AWS "Detect whether a host is running as an EC2 instance", Google "Detect if a VM is
running in Compute Engine", Azure's chassis asset tag.
"""

from pathlib import Path
from typing import Literal

Provider = Literal["aws", "azure", "gcp"]

PROVIDERS: tuple[Provider, ...] = ("aws", "azure", "gcp")

_DMI = Path("/sys/class/dmi/id")
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"
_MAX_BYTES = 256


def machine_provider(dmi: Path = _DMI) -> Provider | None:
    """Return the provider of this machine; None if it is none of the three.

    dmi: the directory with the firmware's tables.
    """
    vendor = _read(dmi / "sys_vendor")
    if vendor == "Amazon EC2" or "amazon" in _read(dmi / "product_version").lower():
        return "aws"
    if vendor == "Google" or _read(dmi / "product_name") in ("Google", "Google Compute Engine"):
        return "gcp"
    if vendor == "Microsoft Corporation" and _read(dmi / "chassis_asset_tag") == _AZURE_TAG:
        return "azure"
    return None


def _read(path: Path) -> str:
    try:
        if not path.is_file():  # a FIFO would block
            return ""
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace").strip()
    except OSError:  # containers may hide the tables
        return ""
