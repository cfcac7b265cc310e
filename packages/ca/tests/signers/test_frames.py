import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_ca.signers._frames import Answer, Failed, Frames, Refused, Signed, frame

numbers = st.integers(0, 2**63)
answers = st.lists(
    st.builds(Signed, number=numbers, leaf_pem=st.binary(), public_key_sha256=st.text())
    | st.builds(Refused, number=numbers, reason=st.text())
    | st.builds(Failed, number=numbers, reason=st.text()),
    max_size=8,
)


@given(sent=answers, sizes=st.lists(st.integers(1, 40), min_size=1))
def test_messages_arrive_whole_and_in_order_however_their_bytes_are_cut(
    sent: list[Answer], sizes: list[int]
) -> None:
    data, frames, cut = b"".join(map(frame, sent)), Frames(), 0
    received: list[Answer] = []
    while data:
        size = sizes[cut % len(sizes)]
        cut += 1
        received += frames.answers(data[:size])
        data = data[size:]
    assert received == sent


def test_what_is_no_message_ends_the_connection() -> None:
    for data in (b"\xff\xff\xff\xff", b"\0\0\0\1\xc1", b"\0\0\0\2\x91\x09"):
        with pytest.raises(ValueError):  # noqa: PT011 - msgspec's errors are ValueErrors too
            list(Frames().answers(data))
