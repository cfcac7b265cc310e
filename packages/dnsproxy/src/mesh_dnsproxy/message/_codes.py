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
