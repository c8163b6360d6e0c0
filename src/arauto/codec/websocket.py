"""WebSocket below the messages: frames, close codes, fragments and UTF-8 (RFC 6455). Sans-I/O.

The transport (picows) parses frame headers and unmasks; what it leaves to us is here. A gateway bypasses the
`Assembler` for the usual case, a whole message in one frame while no other is under way, and then only
owes `check_text` to text messages.
"""

import codecs
from struct import pack
from typing import Final

from arauto.errors import Code, DisconnectError
from arauto.limits import CLOSE_REASON_BYTES_MAX, FRAGMENTS_LEN_MAX

__all__ = [
    "BINARY",
    "CLOSE",
    "CONTINUATION",
    "NO_CLOSE_CODE",
    "PING",
    "PONG",
    "TEXT",
    "Assembler",
    "binary_frame",
    "check_text",
    "close_code",
    "close_payload",
    "frame",
    "may_reconnect",
    "parse_close",
    "text_frame",
]

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

#: What `parse_close` answers for an empty close frame (RFC 6455, 7.1.5).
NO_CLOSE_CODE: Final = 1005

_FIN: Final = 0x80
_DATA_OPCODES: Final = frozenset({CONTINUATION, TEXT, BINARY})
_CONTROL_OPCODES: Final = frozenset({CLOSE, PING, PONG})
_CONTROL_BYTES_MAX: Final = 125
_SMALL_HEADERS: Final = {
    opcode: tuple(bytes((_FIN | opcode, size_bytes)) for size_bytes in range(126))
    for opcode in sorted(_DATA_OPCODES | _CONTROL_OPCODES)
}


def frame(payload: bytes, opcode: int) -> bytes:
    """Return a whole message as one frame, unmasked, as servers send it."""
    size_bytes = len(payload)
    if size_bytes < 126:
        return _SMALL_HEADERS[opcode][size_bytes] + payload
    if size_bytes < 65_536:
        return pack(">BBH", _FIN | opcode, 126, size_bytes) + payload
    return pack(">BBQ", _FIN | opcode, 127, size_bytes) + payload


def binary_frame(payload: bytes) -> bytes:
    """`frame` for the messages of a binary flavour; most are between 126 bytes and 64 KiB."""
    size_bytes = len(payload)
    if 125 < size_bytes < 65_536:
        return pack(">BBH", _FIN | BINARY, 126, size_bytes) + payload
    return frame(payload, BINARY)


def text_frame(payload: bytes) -> bytes:
    """`frame` for the messages of a text flavour."""
    size_bytes = len(payload)
    if 125 < size_bytes < 65_536:
        return pack(">BBH", _FIN | TEXT, 126, size_bytes) + payload
    return frame(payload, TEXT)


def check_text(payload: bytes) -> None:
    """Refuse a text message that is not UTF-8.

    Raises:
        DisconnectError: BAD_TEXT.
    """
    if not payload.isascii():
        try:
            payload.decode()
        except UnicodeDecodeError:
            raise _bad_text() from None


# --- closing -----------------------------------------------------------------------------------------

#: Where RFC 6455 has a code of its own for what happened.
_STANDARD_CODES: Final = {
    Code.CLOSED_BY_CLIENT: 1000,
    Code.PROTOCOL_VIOLATION: 1002,
    Code.BAD_TEXT: 1007,
    Code.FRAME_TOO_LARGE: 1009,
}
_POLICY: Final = 1008
#: What a client did wrong, by the code that a connection is closed with for it.
VIOLATIONS: Final[dict[int, Code]] = {
    _STANDARD_CODES[code]: code
    for code in (Code.PROTOCOL_VIOLATION, Code.BAD_TEXT, Code.FRAME_TOO_LARGE)
}
#: Standard codes after which trying again makes sense: going away, no code, cut off, server trouble.
_TEMPORARY_CODES: Final = frozenset({1001, NO_CLOSE_CODE, 1006, 1011, 1012, 1013})


def close_code(code: Code) -> int:
    """Return the WebSocket close code for the reason a connection ends.

    4xxx travel as they are. WebSocket has no 5xxx, so these travel as 45xx: from 4500 on, and for
    standard codes that blame the client, reconnecting would fail again.
    """
    standard = _STANDARD_CODES.get(code)
    if standard is not None:
        return standard
    if 4000 <= code < 4500:
        return int(code)
    if 5000 <= code < 5500:
        return int(code) - 500
    return _POLICY


def may_reconnect(close_code: int) -> bool:
    """Client side: whether coming back after this close code is right."""
    return 4000 <= close_code < 4500 or close_code in _TEMPORARY_CODES


def close_payload(close_code: int, reason: str = "") -> bytes:
    """Return the payload of a close frame; a reason that is too long loses its end, never half a letter."""
    text = reason.encode(errors="replace")
    if len(text) > CLOSE_REASON_BYTES_MAX:
        text = text[:CLOSE_REASON_BYTES_MAX].decode(errors="ignore").encode()
    return close_code.to_bytes(2, "big") + text


def parse_close(payload: bytes) -> tuple[int, str]:
    """Return a received close frame's code and reason; (NO_CLOSE_CODE, "") if it is empty.

    Raises:
        DisconnectError: PROTOCOL_VIOLATION for a malformed payload or a code that must not be sent,
            BAD_TEXT for a reason that is not UTF-8.
    """
    if not payload:
        return NO_CLOSE_CODE, ""
    if len(payload) == 1 or len(payload) > _CONTROL_BYTES_MAX:
        raise _violation("a close frame has no payload or a two-byte code and a short reason")
    code = int.from_bytes(payload[:2], "big")
    if not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
        raise _violation("the close code must not be sent")
    try:
        return code, payload[2:].decode()
    except UnicodeDecodeError:
        raise _bad_text() from None


# --- fragments ---------------------------------------------------------------------------------------


class Assembler:
    """Puts one connection's fragmented messages together, within limits.

    After an error the connection must end; the assembler is of no more use.
    """

    __slots__ = (
        "_buffer",
        "_decoder",
        "_fragments_len",
        "_fragments_len_max",
        "_message_bytes_max",
        "_opcode",
    )

    def __init__(self, message_bytes_max: int, fragments_len_max: int = FRAGMENTS_LEN_MAX) -> None:
        self._message_bytes_max = message_bytes_max
        self._fragments_len_max = fragments_len_max
        self._opcode = CONTINUATION
        self._fragments_len = 0
        self._buffer = bytearray()
        self._decoder: codecs.IncrementalDecoder | None = None

    @property
    def is_active(self) -> bool:
        """Whether a message has begun and not ended: then frames must not bypass `feed`."""
        return self._fragments_len > 0

    @property
    def size_bytes(self) -> int:
        """What is held of a message that is not whole."""
        return len(self._buffer)

    def feed(
        self, opcode: int, payload: bytes, *, fin: bool, rsv: int = 0
    ) -> tuple[int, bytes] | None:
        """Take a frame; return the opcode and payload of the message it completes, if any.

        Control frames may come between fragments and are returned at once.

        Args:
            opcode: of the frame.
            payload: of the frame, unmasked.
            fin: whether the frame ends its message.
            rsv: the three reserved bits; extensions are not negotiated, so they must be 0.

        Raises:
            DisconnectError: PROTOCOL_VIOLATION, FRAME_TOO_LARGE or BAD_TEXT.
        """
        if rsv:
            raise _violation("reserved bits must be 0")
        if opcode in _CONTROL_OPCODES:
            if not fin or len(payload) > _CONTROL_BYTES_MAX:
                raise _violation("a control frame is whole and has at most 125 bytes")
            return opcode, payload
        if opcode not in _DATA_OPCODES:
            raise _violation("the opcode is reserved")
        if (opcode == CONTINUATION) != self.is_active:
            raise _violation("a message's fragments must follow each other")
        return self._take(opcode, payload, fin=fin)

    def _take(self, opcode: int, payload: bytes, *, fin: bool) -> tuple[int, bytes] | None:
        if len(self._buffer) + len(payload) > self._message_bytes_max:
            rule = f"a message has at most {self._message_bytes_max} bytes"
            raise DisconnectError(Code.FRAME_TOO_LARGE, rule)
        if self._fragments_len >= self._fragments_len_max:
            rule = f"a message has at most {self._fragments_len_max} fragments"
            raise DisconnectError(Code.FRAME_TOO_LARGE, rule)
        if opcode == TEXT and not fin:
            self._decoder = codecs.getincrementaldecoder("utf-8")()
        if self._decoder is not None:
            _check_piece(self._decoder, payload, fin=fin)
        if opcode != CONTINUATION:
            if fin:
                if opcode == TEXT:
                    check_text(payload)
                return opcode, payload
            self._opcode = opcode
        self._buffer += payload
        self._fragments_len += 1
        return self._finish() if fin else None

    def _finish(self) -> tuple[int, bytes]:
        message = bytes(self._buffer)
        self._buffer = bytearray()
        self._fragments_len = 0
        self._decoder = None
        return self._opcode, message


def _check_piece(decoder: codecs.IncrementalDecoder, piece: bytes, *, fin: bool) -> None:
    """Refuse bad text with the first byte that cannot be right, before the message is complete."""
    try:
        decoder.decode(piece, fin)
    except UnicodeDecodeError:
        raise _bad_text() from None
    # The decoder would wait for the third byte of an encoded surrogate, which is never right.
    pending = decoder.getstate()[0]
    if pending[:1] == b"\xed" and pending[1:] >= b"\xa0":
        raise _bad_text()


def _violation(rule: str) -> DisconnectError:
    return DisconnectError(Code.PROTOCOL_VIOLATION, rule)


def _bad_text() -> DisconnectError:
    return DisconnectError(Code.BAD_TEXT, "text must be UTF-8")
