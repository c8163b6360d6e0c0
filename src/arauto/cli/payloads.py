"""From what stands on the command line, in a file or on standard input to payloads. Pure."""

from enum import StrEnum

import msgspec

from arauto.model import JSON, TEXT

__all__ = ["Form", "Payload", "read_payload"]


class Form(StrEnum):
    """How text is understood."""

    GUESS = "guess"
    """As JSON if it is JSON, else as text."""
    JSON = "json"
    TEXT = "text"


class Payload(msgspec.Struct, frozen=True):
    """The bytes of a message, just as they were given, and what they are."""

    data: bytes
    content_type: str


def read_payload(data: bytes, form: Form) -> Payload:
    """Say what the bytes are.

    Raises:
        ValueError: they are not what they should be.
    """
    if form is not Form.TEXT:
        try:
            msgspec.json.decode(data)
            return Payload(data, JSON)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if form is Form.JSON:
                raise ValueError(f"not JSON: {error}") from None
    try:
        data.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text; use --binary-file for other bytes") from None
    return Payload(data, TEXT)
