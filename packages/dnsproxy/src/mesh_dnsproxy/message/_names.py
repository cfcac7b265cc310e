"""Domain names in wire form: a length before each label, zero at the end.

Names in this package are such bytes, in lower case (ASCII only, RFC 4343). Because a length is at
most 63, `bytes.lower` on a whole name changes letters only.
"""

_LENGTHS = tuple(bytes((length,)) for length in range(64))
MAX_NAME_BYTES = 255
_LOWEST_PRINTABLE = 0x21
ROOT = b"\0"


class BadName(ValueError):
    """The text is no domain name; the message says why."""


def to_wire(text: str) -> bytes:
    """Return a name in wire form, from text with or without the last dot; `*` is a label."""
    lowered = text.lower().removesuffix(".")
    if not lowered.isascii():
        try:
            lowered = lowered.encode("idna").decode("ascii")
        except UnicodeError as error:
            raise BadName(f"{text!r} is no domain name: {error}") from error
    if not lowered:
        return ROOT
    try:
        labels = [_LENGTHS[len(label)] + label for label in lowered.encode("ascii").split(b".")]
    except IndexError:
        raise BadName(f"{text!r} has a label of more than 63 bytes") from None
    name = b"".join(labels) + ROOT
    if len(name) > MAX_NAME_BYTES:
        raise BadName(f"{text!r} has more than 253 characters")
    if ROOT in labels:
        raise BadName(f"{text!r} has an empty label")
    if not lowered.isprintable() or " " in lowered:
        raise BadName(f"{text!r} has a space or a control character in it")
    return name


def to_text(name: bytes) -> str:
    r"""Return a name as text without the last dot; bytes that are no text become \DDD."""
    labels = []
    position = 0
    while length := name[position]:
        label = name[position + 1 : position + 1 + length]
        labels.append("".join(_shown(byte) for byte in label))
        position += 1 + length
    return ".".join(labels)


def _shown(byte: int) -> str:
    if byte in b".\\":
        return f"\\{chr(byte)}"
    return chr(byte) if _LOWEST_PRINTABLE <= byte < 0x7F else f"\\{byte:03d}"


def name_end(packet: bytes, position: int) -> int:
    """Return the position after a name; compression pointers are not followed.

    Raises ValueError when the packet ends in the name, or the name is malformed.
    """
    try:
        while length := packet[position]:
            if length >= 0xC0:
                packet[position + 1]
                return position + 2
            if length > 63:
                raise ValueError("a label of an unknown kind")
            position += 1 + length
    except IndexError:
        raise ValueError("a name without an end") from None
    return position + 1
