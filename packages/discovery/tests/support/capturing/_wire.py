"""The bytes on the wire between machines, gathered from their switch."""

import socket
import struct
from dataclasses import dataclass, field

_ETH_IP, _ETH_IPV6 = 0x0800, 0x86DD


@dataclass
class Wire:
    """Everything that went over a device since it was opened."""

    _socket: socket.socket
    _payloads: dict[tuple[str, int, str, int], bytearray] = field(default_factory=dict)
    _frames: list[bytes] = field(default_factory=list)

    def streams_to(self, address: str, port: int) -> list[bytes]:
        """Return what clients sent to an address and port, a connection each."""
        self._read()
        return [
            bytes(data)
            for (_, _, host, number), data in self._payloads.items()
            if (host, number) == (address, port) and data
        ]

    def everything(self) -> bytes:
        """Return all payloads in both directions."""
        self._read()
        return b"\n".join(bytes(each) for each in self._payloads.values())

    def frames(self) -> bytes:
        """Return all frames as they were, of every protocol."""
        self._read()
        return b"\n".join(self._frames)

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> None:
        while True:
            try:
                frame = self._socket.recv(1 << 17)
            except BlockingIOError:
                return
            self._frames.append(frame)
            self._add(frame)

    def _add(self, frame: bytes) -> None:
        kind = struct.unpack_from("!H", frame, 12)[0]
        if kind == _ETH_IP:
            packet = frame[14:]
            header = (packet[0] & 15) * 4
            protocol, length = packet[9], struct.unpack_from("!H", packet, 2)[0]
            source = socket.inet_ntop(socket.AF_INET, packet[12:16])
            target = socket.inet_ntop(socket.AF_INET, packet[16:20])
        elif kind == _ETH_IPV6:
            packet = frame[14:]
            header, protocol = 40, packet[6]
            length = 40 + struct.unpack_from("!H", packet, 4)[0]
            source = socket.inet_ntop(socket.AF_INET6, packet[8:24])
            target = socket.inet_ntop(socket.AF_INET6, packet[24:40])
        else:
            return
        if protocol != socket.IPPROTO_TCP:
            return
        segment = packet[header:length] if length else packet[header:]
        source_port, target_port = struct.unpack_from("!HH", segment)
        data = segment[(segment[12] >> 4) * 4 :]
        key = source, source_port, target, target_port
        self._payloads.setdefault(key, bytearray()).extend(data)


def open_wire(device: str) -> Wire:
    """Begin to gather what goes over a device of the thread's namespace."""
    gathered = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    gathered.bind((device, 0))
    gathered.setblocking(False)
    return Wire(gathered)
