"""The port every wire flavour implements. Pure: bytes in, records out, and back."""

from collections.abc import Generator
from typing import Protocol

from arauto.codec.events import Event, Request
from arauto.codec.unknown import Unknown
from arauto.model import Message

__all__ = ["Codec"]


class Codec(Protocol):
    """One flavour of the protocol. Stateless, so one instance serves every connection.

    A codec never trusts its input: sizes and counts are checked before anything is built from them.
    """

    name: str
    """The WebSocket subprotocol, e.g. "arauto.v1.proto"; also the fan-out's format key."""

    is_text: bool
    """Whether a message travels as text."""

    def decode_request(self, data: bytes) -> Request:
        """Server side: bytes of one message → request. Strict: the shortest way for what is known.

        Raises:
            ArautoError: BAD_ENVELOPE, UNKNOWN_EVENT, NOT_FROM_CLIENT, BATCH_TOO_LARGE or BAD_FIELD
                (with the field); an UnknownFieldError if the first thing wrong is a field that this version
                does not know.
        """

    def decode_known(self, data: bytes, unknown: Unknown) -> Request:
        """Server side: the same after an UnknownFieldError, without the fields that may be ignored.

        They are noted in `unknown`. Costs a few times as much as `decode_request`, by the bytes.

        Raises:
            ArautoError: as `decode_request`; BAD_FIELD for unknown fields that must not be ignored.
        """

    def encode_event(self, event: Event) -> bytes:
        """Server side: event → bytes of one message, unframed."""

    def encode_message(self, message: Message) -> bytes:
        """Server side: the same as encoding a `Publication` of the message, on the shortest way."""

    def encode_value(self, packed: bytes) -> Generator[None, None, bytes]:
        """Server side: a packed document value → the data of an `EncodedValue`, step by step."""

    def request_id(self, data: bytes) -> int:
        """Server side: the id of a request that `decode_request` refused, so that the error can name it.

        Never raises: 0 if there is none to be found.
        """

    def encode_request(self, request: Request) -> bytes:
        """Client side. Raises BAD_FIELD for what a server would refuse; counts are left to the server."""

    def decode_event(self, data: bytes) -> Event:
        """Client side. Raises as `decode_request` does, but ignores fields it does not know."""
