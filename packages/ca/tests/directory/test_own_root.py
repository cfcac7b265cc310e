from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from mesh_ca import KeyType, RootPolicy, StorageError
from mesh_ca.authority._signer import CA_CERT, CA_KEY, ROOT_CERT, certificates, private_key
from mesh_ca.directory._own_root import (
    NEXT_CERT,
    NEXT_KEY,
    ROOT_STATE,
    OwnRoot,
    RootState,
    Step,
    files_after,
    new_root_files,
    next_step,
    replacement_files,
)

BEGIN = datetime(2027, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = RootPolicy(lifetime=100 * DAY, grace=0.2, spread=2 * DAY, retirement=7 * DAY)


def own(files: Mapping[str, bytes]) -> OwnRoot:
    """What a directory with these files holds."""
    state = RootState.from_json(files[ROOT_STATE])
    spreading = state.activate_at is not None
    return OwnRoot(
        key=private_key(files[CA_KEY]),
        certificate=certificates(files[CA_CERT], CA_CERT)[0],
        bundle=tuple(certificates(files[ROOT_CERT], ROOT_CERT)),
        state=state,
        next_key=private_key(files[NEXT_KEY]) if spreading else None,
        next_certificate=certificates(files[NEXT_CERT], NEXT_CERT)[0] if spreading else None,
    )


@cache
def first() -> dict[str, bytes]:
    return dict(
        new_root_files(
            KeyType.P256, organization="cluster.local", serial=1, now=BEGIN, lifetime=100 * DAY
        )
    )


def turned(files: dict[str, bytes], now: datetime, serial: int = 99) -> list[Step]:
    """Do all that is due; the files change in place."""
    done: list[Step] = []
    while (step := next_step(own(files), POLICY, now=now)) is not None:
        files.update(files_after(own(files), step, POLICY, now=now, serial=serial))
        done.append(step)
        assert len(done) < 10
    return done


def replace(files: dict[str, bytes], now: datetime, serial: int = 50) -> None:
    files.update(
        replacement_files(own(files), POLICY, key_type=KeyType.P256, now=now, serial=serial)
    )


def serials(files: Mapping[str, bytes]) -> list[int]:
    return [root.serial_number for root in own(files).bundle]


def test_nothing_is_due_while_a_root_is_young() -> None:
    files = dict(first())
    assert turned(files, BEGIN + 79 * DAY) == []
    assert files == first()


def test_root_near_its_end_is_certified_anew_with_the_same_key() -> None:
    files = dict(first())
    now = BEGIN + 81 * DAY
    assert turned(files, now) == [Step.CERTIFY_ANEW]
    assert files[CA_KEY] == first()[CA_KEY]
    renewed = own(files)
    assert renewed.certificate.subject == own(first()).certificate.subject
    assert renewed.certificate.not_valid_after_utc == now + POLICY.lifetime
    assert serials(files) == [99, 1]


def test_old_root_stays_in_the_bundle_until_it_expires() -> None:
    files = dict(first())
    turned(files, BEGIN + 81 * DAY)
    assert turned(files, BEGIN + 99 * DAY) == []
    assert turned(files, BEGIN + 100 * DAY) == [Step.DROP_EXPIRED]
    assert serials(files) == [99]


def test_replaced_root_signs_until_the_new_one_has_spread_and_is_trusted_until_it_retires() -> None:
    files = dict(first())
    replace(files, BEGIN)
    assert serials(files) == [1, 50]
    assert files[CA_KEY] == first()[CA_KEY]
    assert turned(files, BEGIN + 2 * DAY - timedelta(seconds=1)) == []
    assert turned(files, BEGIN + 2 * DAY) == [Step.ACTIVATE]
    assert serials(files) == [50, 1]
    assert files[CA_KEY] == files[NEXT_KEY] != first()[CA_KEY]
    assert turned(files, BEGIN + 9 * DAY - timedelta(seconds=1)) == []
    assert turned(files, BEGIN + 9 * DAY) == [Step.RETIRE]
    assert serials(files) == [50]


def test_long_absence_does_all_that_was_missed() -> None:
    files = dict(first())
    replace(files, BEGIN)
    assert turned(files, BEGIN + 90 * DAY, serial=60) == [Step.ACTIVATE, Step.CERTIFY_ANEW]
    assert serials(files) == [60, 50, 1]


def test_second_replacement_at_once_is_refused() -> None:
    files = dict(first())
    replace(files, BEGIN)
    with pytest.raises(StorageError, match="being replaced already"):
        replace(files, BEGIN)


def test_replacement_of_a_replacement_keeps_every_root_that_is_needed() -> None:
    files = dict(first())
    replace(files, BEGIN, serial=50)
    turned(files, BEGIN + 2 * DAY)
    replace(files, BEGIN + 8 * DAY, serial=70)
    assert serials(files) == [50, 70, 1]
    assert turned(files, BEGIN + 9 * DAY) == [Step.RETIRE]
    assert serials(files) == [50, 70]
    assert turned(files, BEGIN + 10 * DAY) == [Step.ACTIVATE]
    assert serials(files) == [70, 50]


def test_lifetime_cut_shorter_does_not_certify_for_ever() -> None:
    policy = RootPolicy(lifetime=DAY, grace=1.0)
    files = dict(first())
    assert next_step(own(files), policy, now=BEGIN) is None


@pytest.mark.parametrize(
    "damaged", [b"", b"[]", b"{", b'{"version": 2}', b'{"version": 1}', b"[" * 9000]
)
def test_damaged_state_is_reported(damaged: bytes) -> None:
    with pytest.raises(StorageError, match=r"own-root\.json is damaged"):
        RootState.from_json(damaged)


@given(
    st.builds(
        RootState,
        key_sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
        activate_at=st.none() | st.floats(0, 1e11),
        retire_at=st.none() | st.floats(0, 1e11),
        retirement_s=st.floats(0, 1e9),
    )
)
def test_state_comes_back_from_its_file(state: RootState) -> None:
    assert RootState.from_json(state.to_json()) == state


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.booleans()).map(
            lambda pair: (timedelta(days=pair[0]), pair[1])
        ),
        max_size=8,
    )
)
def test_root_that_signs_is_first_in_the_bundle_and_was_in_it_before(
    passing: list[tuple[timedelta, bool]],
) -> None:
    files, now, serial = dict(first()), BEGIN, 100
    for elapsed, wanted in passing:
        now, serial, known = now + elapsed, serial + 1, own(files).bundle
        while (step := next_step(own(files), POLICY, now=now)) is not None:
            before = own(files)
            files.update(files_after(before, step, POLICY, now=now, serial=serial))
            after = own(files)
            assert after.bundle[0] == after.certificate
            # A key that signs is one that everybody has been sent.
            keys = [root.public_key() for root in before.bundle]
            assert after.certificate.public_key() in keys
        if wanted and own(files).state.activate_at is None:
            replace(files, now, serial=1000 + serial)
        after = own(files)
        assert after.certificate.not_valid_after_utc > now
        assert all(root.not_valid_after_utc > now for root in after.bundle)
        keys = [root.public_key() for root in after.bundle]
        assert any(root.public_key() in keys for root in known)
        assert x509.load_pem_x509_certificate(files[ROOT_CERT]) == after.certificate
