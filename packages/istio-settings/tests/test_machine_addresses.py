import ipaddress

from istio_settings import machine_addresses


def test_the_machines_addresses_are_usable_ones_or_loopback() -> None:
    addresses = [ipaddress.ip_address(text) for text in machine_addresses()]
    assert addresses
    assert len(set(addresses)) == len(addresses)
    if not all(address.is_loopback for address in addresses):
        assert not any(address.is_loopback or address.is_link_local for address in addresses)
