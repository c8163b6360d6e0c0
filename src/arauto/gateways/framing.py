"""WebSocket connections below the session: frames, fragments, text checks, pings and goodbyes.

picows parses frames; what it reads into is in `reader.py`. Here messages are put together and text is
checked, and prebuilt frames are written as they are. Subclasses say what to do with a message.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
from picows import WSFrame, WSListener, WSMsgType, WSTransport

from arauto.clock import Clock
from arauto.codec.websocket import (
    VIOLATIONS,
    Assembler,
    close_code,
    close_payload,
    frame,
    parse_close,
)
from arauto.errors import Code, DisconnectError

if TYPE_CHECKING:
    from arauto.gateways.reader import FrameReader

__all__ = ["BINARY", "TEXT", "FramedConnection"]

TEXT, BINARY = WSMsgType.TEXT, WSMsgType.BINARY
_OP_CLOSE, _OP_PONG = 0x8, 0xA

#: Of a message in pieces, those below count as heartbeats do; larger ones are paid for with its bytes.
_TINY_BYTES = 512

_errors = structlog.get_logger("arauto.gateways")

#: How long a closing connection may take to say goodbye before it is cut.
_GOODBYE_S = 2.0


class FramedConnection(WSListener):
    """One WebSocket connection."""

    __slots__ = (
        "_assembler",
        "_clock",
        "_fragments_max",
        "_leave",
        "_message_bytes_max",
        "_transport",
        "closing",
        "reader",
        "write",
    )

    def __init__(
        self,
        clock: Clock,
        *,
        message_bytes_max: int,
        fragments_max: int,
        leave: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._message_bytes_max = message_bytes_max
        self._fragments_max = fragments_max
        self._leave = leave
        self._assembler: Assembler | None = None
        self._transport: WSTransport | None = None
        self.closing = False
        self.reader: FrameReader | None = None
        """What it is read by, as long as it is connected."""
        self.write: Callable[[bytes], None] = _write_nowhere
        """The transport's own write, so that a flush is one call."""

    @property
    def is_connected(self) -> bool:
        """Whether the handshake was completed, however long ago."""
        return self._transport is not None

    @property
    def is_refused(self) -> bool:
        """Whether the parser has said goodbye, for a frame that it does not take."""
        return self._transport is not None and self._transport.is_close_frame_sent

    # --- for subclasses ----------------------------------------------------------------------------

    def on_open(self) -> None:
        """The handshake is done."""

    def on_message(self, kind: WSMsgType, data: bytes) -> None:
        """A whole message; text is valid UTF-8."""

    def on_alive(self) -> bool:
        """A ping, a pong or a tiny piece of a message came. Whether to answer: not if there are too many."""
        return True

    def on_pong(self, data: bytes) -> None:
        """A pong frame is to be sent, within whatever bounds the sending side has."""
        self.write(data)

    def on_end(self, code: Code) -> None:
        """The connection ends or has ended. Called at least once, perhaps more often."""

    def on_violation(self, code: Code, reason: str) -> None:
        """What the client sent is no WebSocket message, or none it may send. The connection ends for it."""

    def end(self, code: Code, reason: str) -> None:
        """Something is wrong with what the client sent: close."""
        self.on_end(code)
        self.goodbye(code, reason)

    # --- picows callbacks --------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        is_new, self._transport = self._transport is None, transport
        # Nobody looks at them again, and they would stay as long as the connection.
        transport.request.headers = None  # type: ignore[assignment]
        transport.response.headers = None  # type: ignore[assignment]
        if not is_new:
            return  # the reader began anew
        underlying = transport.underlying_transport
        # Anything left in the transport's buffer means: stop, and keep the rest where policies apply.
        # (One byte, not none: a TLS transport would take an empty buffer for a full one.)
        underlying.set_write_buffer_limits(high=1, low=0)
        self.write = underlying.write
        self.on_open()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        try:
            kind = frame.msg_type
            if (
                (kind is BINARY or kind is TEXT)
                and frame.fin
                and self._assembler is None
                and not (frame.rsv1 or frame.rsv2 or frame.rsv3)
            ):
                data = frame.get_payload_as_bytes()
                if kind is TEXT and not _is_utf8(data):
                    self.end_for(Code.BAD_TEXT, "a text frame was not UTF-8")
                elif not self.closing:
                    self.on_message(kind, data)
            else:
                self._odd_frame(kind, frame)
        except Exception:
            # Ours to mend; whatever it is, it costs this connection only.
            _errors.exception("a frame could not be handled")
            self.end(Code.SERVER_ERROR, "the server failed to handle a message")

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        said = transport.close_handshake
        if not self.closing and said is not None and said.sent is not None and said.recv is None:
            # The parser closes by itself for frames that it cannot take.
            violation = VIOLATIONS.get(said.sent.code.value)
            if violation is not None:
                self.on_violation(violation, "a frame was malformed or too large")
        self.closing = True
        self._leave()
        self.on_end(Code.CONNECTION_LOST)

    # --- what is not a whole data frame ------------------------------------------------------------

    def _odd_frame(self, kind: WSMsgType, frame: WSFrame) -> None:
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            self.end_for(Code.PROTOCOL_VIOLATION, "reserved bits must be 0")
        elif kind is WSMsgType.CLOSE:
            self._on_close(frame)
        elif self.closing:
            return
        elif kind is WSMsgType.PING:
            if self.on_alive():
                self.on_pong(_frame(frame.get_payload_as_bytes(), _OP_PONG))
        elif kind is WSMsgType.PONG:
            self.on_alive()
        else:
            if frame.payload_size < _TINY_BYTES:
                self.on_alive()
            if not self.closing:
                self._on_fragment(kind, frame)

    def _on_fragment(self, kind: WSMsgType, frame: WSFrame) -> None:
        if self._assembler is None:
            self._assembler = Assembler(self._message_bytes_max, self._fragments_max)
        try:
            done = self._assembler.feed(
                kind.value, frame.get_payload_as_bytes(), fin=bool(frame.fin)
            )
        except DisconnectError as error:
            self.end_for(error.code, error.message)
            return
        held_bytes = self._assembler.size_bytes
        if self.reader is not None and not self.reader.hold_fragments(held_bytes):
            return
        if done is not None:
            self._assembler = None
            self.on_message(TEXT if done[0] == TEXT.value else BINARY, done[1])

    def _on_close(self, frame: WSFrame) -> None:
        if self._transport is None:
            return
        payload = frame.get_payload_as_bytes()
        try:
            parse_close(payload)
        except DisconnectError as error:
            self.end_for(error.code, error.message)
        if not self.closing:
            self.closing = True
            self.on_end(Code.CONNECTION_LOST)
            # The answer is the code that came.
            self.write(_frame(payload[:2], _OP_CLOSE))
        self._transport.disconnect()

    def end_for(self, violation: Code, reason: str) -> None:
        """Close for what the client sent."""
        if not self.closing:
            self.on_violation(violation, reason)
        self.end(violation, reason)

    def goodbye(self, code: Code, reason: str) -> None:
        """Send a close frame; a client that does not answer it is cut off soon."""
        if self.closing:
            return
        self.closing = True
        self.write(_frame(close_payload(close_code(code), reason), _OP_CLOSE))
        if self._transport is not None:
            underlying = self._transport.underlying_transport
            underlying.resume_reading()
            self._clock.call_later(_GOODBYE_S, underlying.abort)

    def cut_off(self, code: Code, reason: str) -> None:
        """Close, and keep nothing of a message that is not whole."""
        self._assembler = None
        self.end(code, reason)

    # --- reading -----------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        if self._transport is not None and not self.closing:
            self._transport.underlying_transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self.closing:
            self._transport.underlying_transport.resume_reading()


def _frame(payload: bytes, opcode: int) -> bytes:
    # `frame` is also what picows calls a frame it hands in.
    return frame(payload, opcode)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _write_nowhere(data: bytes) -> None:
    """Before the handshake and after the end there is nobody to write to."""
