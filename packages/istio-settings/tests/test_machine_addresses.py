import ipaddress
import os
import shutil
import subprocess
import sys

import pytest

from istio_settings import machine_addresses


def test_the_machines_addresses_are_usable_ones_or_loopback() -> None:
    addresses = [ipaddress.ip_address(text) for text in machine_addresses()]
    assert addresses
    assert len(set(addresses)) == len(addresses)
    if not all(address.is_loopback for address in addresses):
        assert not any(address.is_loopback or address.is_link_local for address in addresses)


@pytest.mark.skipif(os.geteuid() != 0, reason="a network of one's own needs root")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare")
@pytest.mark.skipif(shutil.which("ip") is None, reason="there is no ip")
@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        ("true", "127.0.0.1 ::1"),  # lo is down
        ("ip link set lo up", "127.0.0.1 ::1"),
        ("ip link set lo up && ip addr del 127.0.0.1/8 dev lo", "::1"),
        ("ip link set lo up && ip addr del ::1/128 dev lo", "127.0.0.1"),
    ],
)
def test_a_machine_without_other_addresses_has_those_of_loopback_that_it_can_bind(
    setup: str, expected: str
) -> None:
    program = "from istio_settings import machine_addresses; print(*machine_addresses())"
    said = subprocess.check_output(
        [
            "unshare",
            "--net",
            "sh",
            "-c",
            f'{setup} && exec "$@"',
            "sh",
            sys.executable,
            "-c",
            program,
        ],
        text=True,
    )
    assert said == f"{expected}\n"
