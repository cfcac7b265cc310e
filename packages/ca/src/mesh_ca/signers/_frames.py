"""The frames between the serving process and a signer process, on a socket that only they have.

A frame is a length of four bytes, and a message in MessagePack. They are read in the order in which
they were written, so all requests after an `Install` are signed with what it brought.
"""

from collections.abc import Iterator

import msgspec

_LENGTH_BYTES = 4
_MAX_FRAME_BYTES = 1 << 20


class Install(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=0):
    """Sign with this certificate (DER) and its key (PKCS #8, DER) from now on."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:  # without the key
        return "Install()"


class Sign(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=1):
    """Check a signing request (PEM), and certify its key.

    names, common_name and serial are those of a `Leaf`, the serial number big-endian; the times in
    Unix seconds. number: is in the answer too.
    """

    number: int
    csr: bytes
    names: bytes
    common_name: str
    serial: bytes
    not_before: int
    not_after: int


class Signed(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=2):
    """A certificate, PEM, and the SHA-256 of its key in hexadecimal."""

    number: int
    leaf_pem: bytes
    public_key_sha256: str


class Refused(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=3):
    """The request is at fault; the reason is fit for the caller who sent it."""

    number: int
    reason: str


class Failed(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=4):
    """The signer process is at fault; the reason is for the log."""

    number: int
    reason: str


Instruction = Install | Sign
Answer = Signed | Refused | Failed

_encode = msgspec.msgpack.Encoder().encode
_instructions: "msgspec.msgpack.Decoder[Instruction]" = msgspec.msgpack.Decoder(Instruction)
_answers: "msgspec.msgpack.Decoder[Answer]" = msgspec.msgpack.Decoder(Answer)


def frame(message: Instruction | Answer) -> bytes:
    """Return the frame of a message."""
    body = _encode(message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


class Frames:
    """Takes bytes as they come, and gives the messages that are complete.

    Both ways raise ValueError for bytes that are no such message; the connection is of no use then.
    """

    def __init__(self) -> None:
        self._rest = b""

    def instructions(self, data: bytes) -> Iterator[Instruction]:
        """Take bytes that the serving process sent."""
        return map(_instructions.decode, self._bodies(data))

    def answers(self, data: bytes) -> Iterator[Answer]:
        """Take bytes that a signer process sent."""
        return map(_answers.decode, self._bodies(data))

    def _bodies(self, data: bytes) -> Iterator[bytes]:
        whole = self._rest + data if self._rest else data
        begin, end = 0, len(whole)
        while end - begin >= _LENGTH_BYTES:
            body = begin + _LENGTH_BYTES
            length = int.from_bytes(whole[begin:body], "big")
            if length > _MAX_FRAME_BYTES:
                raise ValueError(f"frame of {length} bytes, at most {_MAX_FRAME_BYTES} are sent")
            if end - body < length:
                break
            begin = body + length
            yield whole[body:begin]
        self._rest = whole[begin:]
