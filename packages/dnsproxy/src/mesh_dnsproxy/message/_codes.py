"""The numbers of the protocol that are used here (IANA's DNS parameters)."""

from types import MappingProxyType

# types
A = 1
NS = 2
CNAME = 5
SOA = 6
PTR = 12
MX = 15
TXT = 16
AAAA = 28
SRV = 33
OPT = 41
HTTPS = 65
IXFR = 251
AXFR = 252
ANY = 255

IN = 1

# bits of the second word of a header
QR = 0x8000
OPCODE = 0x7800
AA = 0x0400
TC = 0x0200
RD = 0x0100
RA = 0x0080
AD = 0x0020
CD = 0x0010
RCODE = 0x000F

DO = 0x8000
"""The first bit of an OPT record's flags."""

# answers' codes
NOERROR = 0
FORMERR = 1
SERVFAIL = 2
NXDOMAIN = 3
NOTIMP = 4
REFUSED = 5
BADVERS = 16

_TYPE_NAMES = MappingProxyType(
    {
        A: "A",
        NS: "NS",
        CNAME: "CNAME",
        SOA: "SOA",
        PTR: "PTR",
        MX: "MX",
        TXT: "TXT",
        AAAA: "AAAA",
        SRV: "SRV",
        HTTPS: "HTTPS",
        ANY: "ANY",
    }
)
TYPE_LABELS = (*_TYPE_NAMES.values(), "other")
"""The values of a metric's label."""


def type_label(qtype: int) -> str:
    """Return the name of a type for a metric; rare types share one."""
    return _TYPE_NAMES.get(qtype, "other")


_CODE_NAMES = ("NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED")
_LARGEST_TYPE = 0xFFFF


def type_name(qtype: int) -> str:
    """Return the name of a type; one that has none here is TYPE and its number (RFC 3597)."""
    return _TYPE_NAMES.get(qtype, f"TYPE{qtype}")


def type_number(text: str) -> int:
    """Return the number of a type: by its name, as TYPE64, or as 64; raises ValueError."""
    wanted = text.strip().upper()
    for number, name in _TYPE_NAMES.items():
        if name == wanted:
            return number
    digits = wanted.removeprefix("TYPE")
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits[:6]) <= _LARGEST_TYPE):
        known = ", ".join(_TYPE_NAMES.values())
        raise ValueError(f"{text!r} is no type of DNS records; there are {known}, or TYPE65")
    return int(digits)


def code_name(rcode: int) -> str:
    """Return the name of an answer's code."""
    return _CODE_NAMES[rcode] if rcode < len(_CODE_NAMES) else f"RCODE{rcode}"
