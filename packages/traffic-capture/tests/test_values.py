"""Value classes: frozen, compared by their fields, and dataclasses to those who ask."""

import copy
import dataclasses
import pickle

import pytest

from mesh_traffic_capture import ALL, CaptureConfig, DnsCapture, HostFacts, Mode

CONFIG = CaptureConfig(mode=Mode.TPROXY, dns=DnsCapture(servers=ALL))


def test_values_are_compared_by_their_fields() -> None:
    same = CaptureConfig(mode=Mode.TPROXY, dns=DnsCapture(servers=ALL))
    assert (same, hash(same)) == (CONFIG, hash(CONFIG))
    assert CaptureConfig() != CONFIG
    assert DnsCapture(servers=ALL) != object()


def test_a_value_is_frozen() -> None:
    with pytest.raises(AttributeError, match="mode can't be set"):
        CONFIG.mode = Mode.REDIRECT  # type: ignore[misc]
    with pytest.raises(AttributeError, match="mode can't be deleted"):
        del CONFIG.mode


@pytest.mark.parametrize("given", [{}, {"servers": ALL, "ports": 53}])
def test_a_field_that_is_missing_or_unknown_is_named(given: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="DnsCapture has the fields servers, port"):
        DnsCapture(**given)  # type: ignore[arg-type]


def test_the_library_for_dataclasses_knows_them() -> None:
    assert dataclasses.is_dataclass(CaptureConfig)
    changed = dataclasses.replace(CONFIG, inbound_port=7)
    assert (changed.inbound_port, changed.mode) == (7, Mode.TPROXY)
    assert dataclasses.asdict(DnsCapture(servers=ALL)) == {"servers": ALL, "port": 15053}
    fields = {each.name: each for each in dataclasses.fields(HostFacts)}
    assert (fields["has_ipv4"].default, fields["users"].default_factory) == (True, dict)


def test_values_can_be_copied_and_stored() -> None:
    assert copy.deepcopy(CONFIG) == CONFIG
    assert pickle.loads(pickle.dumps(CONFIG)) == CONFIG  # noqa: S301 - our own


def test_what_is_made_for_a_field_is_no_other_value_s() -> None:
    assert HostFacts().users is not HostFacts().users


def test_a_value_shows_its_fields() -> None:
    assert repr(DnsCapture(servers=ALL)) == "DnsCapture(servers=<All.ALL: '*'>, port=15053)"
