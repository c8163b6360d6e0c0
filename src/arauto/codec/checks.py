"""The rules a request must keep, whatever flavour it came in. Pure.

A flavour's decoder only establishes structure: the fields are there, and of the right type. What the values
may be is said here, once, so that both flavours refuse the same things in the same words. Field names
are those of the wire (`messages[0].ttl_ms`); what the client sent is never repeated in an error.

Channel names and patterns are not checked here but by `names`, item by item: one bad name in a batch
fails that item alone.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from arauto.codec.events import (
    AuthRequest,
    CloseRequest,
    DocumentChangeRequest,
    DocumentGetRequest,
    HistoryRequest,
    MarkReadRequest,
    OccupancyRequest,
    Ping,
    Pong,
    PresenceRequest,
    PublishItem,
    PublishRequest,
    Request,
    RestoreRequest,
    RpcRequest,
    StreamRequest,
    SubscribeRequest,
    UnsubscribeRequest,
)
from arauto.errors import ArautoError, Code
from arauto.limits import (
    BATCH_LEN_MAX,
    CONTENT_TYPE_BYTES_MAX,
    CREDENTIALS_BYTES_MAX,
    EPOCH_MAX,
    HEADER_NAME_BYTES_MAX,
    HEADERS_BYTES_MAX,
    HEADERS_LEN_MAX,
    HISTORY_PAGE_LEN_MAX,
    IDEMPOTENCY_KEY_BYTES_MAX,
    KEY_BYTES_MAX,
    NAME_BYTES_MAX,
    POSITIONS_LEN_MAX,
    RESTORE_KEY_BYTES_MAX,
    TTL_MS_MAX,
    UINT53_MAX,
)
from arauto.model import BINARY, JSON, RESERVED_HEADERS, TEXT, Serial

__all__ = [
    "OPERATIONS_WITH_SOURCE",
    "OPERATIONS_WITH_VALUE",
    "bad_field",
    "check_count",
    "check_items",
    "check_operation_parts",
    "check_request",
    "check_serial",
]

OPERATIONS_WITH_VALUE = frozenset({"add", "replace", "test"})
OPERATIONS_WITH_SOURCE = frozenset({"move", "copy"})
_OPERATIONS = OPERATIONS_WITH_VALUE | OPERATIONS_WITH_SOURCE | {"remove"}

_COMMON_CONTENT_TYPES = frozenset({BINARY, TEXT, JSON})
_CONTENT_TYPE = re.compile(r"[\x20-\x7e]+\Z")
_HEADER_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")
# Stores, logs and other protocols' headers cannot all carry these; NUL alone would fail a whole commit.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def bad_field(field: str, rule: str) -> ArautoError:
    """Return the error for a field that is missing, ill-typed or against a rule."""
    return ArautoError(Code.BAD_FIELD, rule, field=field)


def check_count(count: int, field: str, most: int = BATCH_LEN_MAX) -> None:
    """Refuse an empty or oversized batch. Called before records are built from its items.

    Raises:
        ArautoError: BAD_FIELD if empty, BATCH_TOO_LARGE if there are too many.
    """
    if count < 1:
        raise bad_field(field, "must have at least one item")
    if count > most:
        raise ArautoError(Code.BATCH_TOO_LARGE, f"must have at most {most} items", field=field)


def check_operation_parts(
    op: str, *, has_value: bool, has_source: bool, field: str, source: str
) -> None:
    """Refuse a document operation that lacks what its kind needs, or has what its kind does not take.

    Args:
        op: the kind of operation.
        has_value: whether a value was sent (a null counts).
        has_source: whether a source pointer was sent (an empty one counts).
        field: where the operation stands in the request.
        source: what this flavour calls the source pointer.
    """
    if op not in _OPERATIONS:
        raise bad_field(f"{field}.op", "must be add, remove, replace, move, copy or test")
    for name, present, wanted in (
        ("value", has_value, op in OPERATIONS_WITH_VALUE),
        (source, has_source, op in OPERATIONS_WITH_SOURCE),
    ):
        if present != wanted:
            rule = "is required" if wanted else "is not allowed"
            raise bad_field(f"{field}.{name}", f"{rule} in this operation")


def check_serial(serial: Serial, field: str) -> None:
    """Refuse a serial whose numbers no channel can reach."""
    if not 0 <= serial.epoch <= EPOCH_MAX:
        raise bad_field(f"{field}.epoch", "must lie between 0 and 2^63-1")
    _check_uint(serial.offset, f"{field}.offset")


def _check_uint(value: int, field: str, most: int = UINT53_MAX) -> None:
    if not 0 <= value <= most:
        raise bad_field(field, f"must be a whole number from 0 to {most}")


def _check_text(text: str, field: str, bytes_max: int, *, required: bool = False) -> None:
    if required and not text:
        raise bad_field(field, "must not be empty")
    if len(text) > bytes_max or (not text.isascii() and len(text.encode()) > bytes_max):
        raise bad_field(field, f"must have at most {bytes_max} bytes")
    if _CONTROL.search(text):
        raise bad_field(field, "must have no control characters")


def _check_positions(positions: Mapping[str, Serial], field: str) -> None:
    if len(positions) > POSITIONS_LEN_MAX:
        raise bad_field(field, f"must have at most {POSITIONS_LEN_MAX} entries")
    for serial in positions.values():
        check_serial(serial, field)


def _check_headers(headers: Mapping[str, str], field: str, reserved: frozenset[str]) -> None:
    if len(headers) > HEADERS_LEN_MAX:
        raise bad_field(field, f"must have at most {HEADERS_LEN_MAX} entries")
    size_bytes = 0
    for name, value in headers.items():
        if len(name) > HEADER_NAME_BYTES_MAX or not _HEADER_NAME.match(name):
            rule = f"names must be 1-{HEADER_NAME_BYTES_MAX} of A-Z a-z 0-9 . _ -"
            raise bad_field(field, rule)
        if _CONTROL.search(value):
            raise bad_field(field, "values must have no control characters")
        size_bytes += len(name) + len(value.encode())
    if size_bytes > HEADERS_BYTES_MAX:
        raise bad_field(field, f"must have at most {HEADERS_BYTES_MAX} bytes in all")
    if not reserved.isdisjoint(headers):
        name = min(reserved.intersection(headers))
        raise bad_field(field, f"must not have {name}, which only the data pipeline sets")


def _check_item(item: PublishItem, index: int, reserved: frozenset[str]) -> None:
    content_type = item.content_type
    if content_type not in _COMMON_CONTENT_TYPES and (
        len(content_type) > CONTENT_TYPE_BYTES_MAX or not _CONTENT_TYPE.match(content_type)
    ):
        rule = f"must be at most {CONTENT_TYPE_BYTES_MAX} printable ASCII characters"
        raise bad_field(f"messages[{index}].content_type", rule)
    if item.idempotency_key:
        field = f"messages[{index}].idempotency_key"
        _check_text(item.idempotency_key, field, IDEMPOTENCY_KEY_BYTES_MAX)
    if item.key:
        _check_text(item.key, f"messages[{index}].key", KEY_BYTES_MAX)
    if item.ttl_ms:
        _check_uint(item.ttl_ms, f"messages[{index}].ttl_ms", TTL_MS_MAX)
    if item.headers:
        _check_headers(item.headers, f"messages[{index}].headers", reserved)


def check_items(
    items: tuple[PublishItem, ...], *, reserved: frozenset[str] = RESERVED_HEADERS
) -> None:
    """Refuse messages whose values break a rule.

    Args:
        items: what is to be published.
        reserved: headers the publisher may not set; none for an administrator.

    Raises:
        ArautoError: BAD_FIELD, naming the field and the rule.
    """
    for index, item in enumerate(items):
        _check_item(item, index, reserved)


def _publish(request: PublishRequest) -> None:
    check_items(request.items)


def _restore(request: RestoreRequest) -> None:
    _check_text(request.key, "key", RESTORE_KEY_BYTES_MAX, required=True)
    _check_positions(request.positions, "positions")


def _auth(request: AuthRequest) -> None:
    if len(request.credentials) > CREDENTIALS_BYTES_MAX:
        raise bad_field("credentials", f"must have at most {CREDENTIALS_BYTES_MAX} bytes")


def _subscribe(request: SubscribeRequest) -> None:
    for index, item in enumerate(request.items):
        field = f"items[{index}]"
        if item.since is not None:
            check_serial(item.since, f"{field}.since")
        if item.positions is None:
            continue
        if item.since is not None:
            raise bad_field(field, "must have since (channels) or positions (patterns), not both")
        _check_positions(item.positions, f"{field}.positions")


def _history(request: HistoryRequest) -> None:
    if request.since is not None:
        check_serial(request.since, "since")
    if request.until is not None:
        check_serial(request.until, "until")
    _check_uint(request.from_ms, "from_ms")
    _check_uint(request.to_ms, "to_ms")
    _check_uint(request.limit, "limit", HISTORY_PAGE_LEN_MAX)


def _rpc(request: RpcRequest) -> None:
    _check_text(request.method, "method", NAME_BYTES_MAX, required=True)
    _check_uint(request.timeout_ms, "timeout_ms")


def _stream(request: StreamRequest) -> None:
    _check_text(request.stream, "stream", NAME_BYTES_MAX, required=True)


def _document_change(request: DocumentChangeRequest) -> None:
    if request.if_version != -1:
        _check_uint(request.if_version, "if_version")


def _mark_read(request: MarkReadRequest) -> None:
    for index, name in enumerate(request.notifications):
        _check_text(name, f"notifications[{index}]", NAME_BYTES_MAX, required=True)


def _id_only(request: Any) -> None:
    pass


_CHECKS: dict[type, Callable[[Any], None]] = {
    Ping: _id_only,
    Pong: _id_only,
    PublishRequest: _publish,
    RestoreRequest: _restore,
    AuthRequest: _auth,
    SubscribeRequest: _subscribe,
    UnsubscribeRequest: _id_only,
    PresenceRequest: _id_only,
    OccupancyRequest: _id_only,
    HistoryRequest: _history,
    RpcRequest: _rpc,
    StreamRequest: _stream,
    DocumentGetRequest: _id_only,
    DocumentChangeRequest: _document_change,
    MarkReadRequest: _mark_read,
}


def check_request(request: Request) -> None:
    """Refuse a request whose values break a rule.

    Raises:
        ArautoError: BAD_FIELD, naming the field and the rule.
    """
    if type(request) is CloseRequest:
        return
    if not 0 <= request.id <= UINT53_MAX:  # type: ignore[union-attr]
        raise bad_field("id", f"must be a whole number from 0 to {UINT53_MAX}")
    _CHECKS[type(request)](request)
