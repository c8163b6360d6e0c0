"""Python objects to payload bytes and back, by content type. Pure.

Payloads are bytes everywhere else; this is the one place where the client looks inside.
"""

from typing import Any

import msgspec

from arauto.errors import ArautoError, Code
from arauto.model import BINARY, JSON, TEXT

__all__ = ["decode", "encode", "is_json", "is_text"]


def encode(data: Any, content_type: str | None = None) -> tuple[bytes, str]:
    """Return the payload and its content type.

    Without a content type, bytes travel as they are, str as text and everything else as JSON. With one,
    bytes still travel as they are; other objects are written as JSON if the type is a JSON type, and
    str as UTF-8 for any other type.

    Raises:
        ArautoError: BAD_FIELD if the object cannot be written that way.
    """
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), BINARY if content_type is None else content_type
    if isinstance(data, str) and not (content_type is not None and is_json(content_type)):
        return _encode_text(data), TEXT if content_type is None else content_type
    if content_type is not None and not is_json(content_type):
        raise _unfit(
            f"{type(data).__name__} cannot be written as {content_type}: pass bytes or str"
        )
    try:
        return msgspec.json.encode(data), JSON if content_type is None else content_type
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise _unfit(f"{type(data).__name__} cannot be written as JSON: {error}") from error


def decode(payload: bytes, content_type: str) -> Any:
    """Return what a payload holds: a Python object for JSON, str for text, else the bytes themselves.

    Raises:
        ArautoError: BAD_FIELD if the payload is not what its content type says.
    """
    if is_json(content_type):
        try:
            return msgspec.json.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _unfit(f"the payload is not valid {content_type}") from error
    if is_text(content_type):
        try:
            return payload.decode()
        except UnicodeDecodeError as error:
            raise _unfit("the payload is not valid UTF-8") from error
    return payload


def is_json(content_type: str) -> bool:
    """Whether the content type is JSON or built on it (`application/geo+json`)."""
    kind = _kind(content_type)
    return kind == JSON or kind.endswith("+json")


def is_text(content_type: str) -> bool:
    """Whether the content type is text."""
    return _kind(content_type).startswith("text/")


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _unfit("text is valid Unicode, without lone surrogates") from error


def _unfit(rule: str) -> ArautoError:
    return ArautoError(Code.BAD_FIELD, rule, field="data")
