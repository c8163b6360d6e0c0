"""Frames, close codes, fragments and UTF-8, by RFC 6455."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec import websocket as ws
from arauto.errors import Code, DisconnectError


def refused(call: Callable[[], object]) -> Code:
    with pytest.raises(DisconnectError) as caught:
        call()
    return caught.value.code


# --- frames ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size_bytes", "header"),
    [
        (0, "8200"),
        (1, "8201"),
        (125, "827d"),
        (126, "827e007e"),
        (65_535, "827effff"),
        (65_536, "827f0000000000010000"),
    ],
)
def test_a_frame_has_the_shortest_header_that_holds_its_length(
    size_bytes: int, header: str
) -> None:
    payload = b"x" * size_bytes
    assert ws.frame(payload, ws.BINARY) == bytes.fromhex(header) + payload


@pytest.mark.parametrize(
    ("opcode", "first"), [(ws.TEXT, 0x81), (ws.CLOSE, 0x88), (ws.PING, 0x89), (ws.PONG, 0x8A)]
)
def test_a_frame_is_final_and_unmasked(opcode: int, first: int) -> None:
    assert ws.frame(b"", opcode) == bytes((first, 0))


# --- closing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "close_code"),
    [
        (Code.GOING_AWAY, 4000),
        (Code.SLOW_CONSUMER, 4002),
        (Code.CLOSED_BY_CLIENT, 1000),
        (Code.AUTH_DEADLINE, 4501),
        (Code.PROTOCOL_VIOLATION, 1002),
        (Code.FORCED_LOGOUT, 4503),
        (Code.BAD_TEXT, 1007),
        (Code.FRAME_TOO_LARGE, 1009),
        (Code.TOO_MANY_ERRORS, 4507),
        (Code.BAD_FIELD, 1008),
        (Code.STORAGE_FULL, 1008),
    ],
)
def test_a_reason_has_its_close_code(code: Code, close_code: int) -> None:
    assert ws.close_code(code) == close_code


def test_every_disconnect_has_a_close_code_that_tells_clients_the_same() -> None:
    for code in Code:
        if 4000 <= code < 6000:
            close_code = ws.close_code(code)
            assert ws.parse_close(ws.close_payload(close_code)) == (close_code, "")
            assert ws.may_reconnect(close_code) == (code < 5000)


@pytest.mark.parametrize(
    ("close_code", "again"),
    [
        *((1001, True), (1005, True), (1006, True), (1011, True), (1012, True), (1013, True)),
        *((1000, False), (1002, False), (1007, False), (1008, False), (1009, False), (3000, False)),
    ],
)
def test_a_client_knows_from_standard_codes_whether_to_return(close_code: int, again: bool) -> None:
    assert ws.may_reconnect(close_code) is again


@pytest.mark.parametrize("reason", ["", "bye", "a" * 123])
def test_a_close_payload_is_read_back(reason: str) -> None:
    assert ws.parse_close(ws.close_payload(4000, reason)) == (4000, reason)


@given(st.text(max_size=200))
def test_a_long_reason_is_cut_between_letters(reason: str) -> None:
    payload = ws.close_payload(1000, reason)
    assert len(payload) <= 125
    code, text = ws.parse_close(payload)
    assert code == 1000
    assert reason.encode(errors="replace").startswith(text.encode())
    assert len(payload) > 121 or text.encode() == reason.encode(errors="replace")


def test_an_empty_close_frame_has_no_code() -> None:
    assert ws.parse_close(b"") == (ws.NO_CLOSE_CODE, "")


@pytest.mark.parametrize(
    "code", [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535]
)
def test_a_close_code_that_must_not_be_sent_is_a_violation(code: int) -> None:
    assert refused(lambda: ws.parse_close(code.to_bytes(2, "big"))) is Code.PROTOCOL_VIOLATION


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013])
@pytest.mark.parametrize("more", [0, 2000, 3000])
def test_a_close_code_that_may_be_sent_is_taken(code: int, more: int) -> None:
    assert ws.parse_close((code + more if more else code).to_bytes(2, "big"))[1] == ""


def test_a_malformed_close_payload_is_refused() -> None:
    assert refused(lambda: ws.parse_close(b"\x03")) is Code.PROTOCOL_VIOLATION
    assert refused(lambda: ws.parse_close(b"\x03\xe8" + b"a" * 124)) is Code.PROTOCOL_VIOLATION
    assert refused(lambda: ws.parse_close(b"\x03\xe8\xff")) is Code.BAD_TEXT


# --- fragments ---------------------------------------------------------------------------------------


def assembler(message_bytes_max: int = 100) -> ws.Assembler:
    return ws.Assembler(message_bytes_max)


def test_a_whole_message_passes() -> None:
    taker = assembler()
    assert taker.feed(ws.TEXT, b"a", fin=True) == (ws.TEXT, b"a")
    assert taker.feed(ws.BINARY, b"\xff", fin=True) == (ws.BINARY, b"\xff")
    assert not taker.is_active


@given(st.lists(st.binary(max_size=10), min_size=2, max_size=9))
def test_fragments_are_joined_in_order(parts: list[bytes]) -> None:
    taker = assembler()
    opcode = ws.BINARY
    for part in parts[:-1]:
        assert taker.feed(opcode, part, fin=False) is None
        assert taker.is_active
        opcode = ws.CONTINUATION
    assert taker.feed(opcode, parts[-1], fin=True) == (ws.BINARY, b"".join(parts))
    assert not taker.is_active


def test_control_frames_may_come_between_fragments() -> None:
    taker = assembler()
    taker.feed(ws.TEXT, b"a", fin=False)
    assert taker.feed(ws.PING, b"\xff", fin=True) == (ws.PING, b"\xff")
    assert taker.feed(ws.CLOSE, b"", fin=True) == (ws.CLOSE, b"")
    assert taker.feed(ws.CONTINUATION, b"b", fin=True) == (ws.TEXT, b"ab")


def test_a_second_message_can_follow_the_first() -> None:
    taker = assembler()
    for _ in range(3):
        assert taker.feed(ws.TEXT, b"a", fin=False) is None
        assert taker.feed(ws.CONTINUATION, b"b", fin=True) == (ws.TEXT, b"ab")


@pytest.mark.parametrize("fin", [True, False])
def test_a_continuation_of_nothing_is_a_violation(fin: bool) -> None:
    taker = assembler()
    call = lambda: taker.feed(ws.CONTINUATION, b"a", fin=fin)  # noqa: E731
    assert refused(call) is Code.PROTOCOL_VIOLATION


@pytest.mark.parametrize("opcode", [ws.TEXT, ws.BINARY])
@pytest.mark.parametrize("fin", [True, False])
def test_a_message_inside_another_is_a_violation(opcode: int, fin: bool) -> None:
    taker = assembler()
    taker.feed(ws.TEXT, b"a", fin=False)
    assert refused(lambda: taker.feed(opcode, b"a", fin=fin)) is Code.PROTOCOL_VIOLATION


@pytest.mark.parametrize("rsv", range(1, 8))
def test_reserved_bits_are_a_violation(rsv: int) -> None:
    taker = assembler()
    for opcode in (ws.TEXT, ws.PING):
        call = lambda: taker.feed(opcode, b"", fin=True, rsv=rsv)  # noqa: B023, E731
        assert refused(call) is Code.PROTOCOL_VIOLATION


@pytest.mark.parametrize("opcode", [3, 4, 5, 6, 7, 11, 12, 13, 14, 15])
def test_reserved_opcodes_are_a_violation(opcode: int) -> None:
    taker = assembler()
    assert refused(lambda: taker.feed(opcode, b"", fin=True)) is Code.PROTOCOL_VIOLATION


@pytest.mark.parametrize("opcode", [ws.CLOSE, ws.PING, ws.PONG])
def test_control_frames_are_whole_and_short(opcode: int) -> None:
    taker = assembler()
    assert taker.feed(opcode, b"a" * 125, fin=True) == (opcode, b"a" * 125)
    assert refused(lambda: taker.feed(opcode, b"a" * 126, fin=True)) is Code.PROTOCOL_VIOLATION
    assert refused(lambda: taker.feed(opcode, b"", fin=False)) is Code.PROTOCOL_VIOLATION


def test_a_message_over_the_limit_is_refused_before_it_is_joined() -> None:
    taker = assembler(10)
    assert refused(lambda: taker.feed(ws.BINARY, b"a" * 11, fin=True)) is Code.FRAME_TOO_LARGE
    taker = assembler(10)
    taker.feed(ws.BINARY, b"a" * 6, fin=False)
    assert refused(lambda: taker.feed(0, b"a" * 5, fin=False)) is Code.FRAME_TOO_LARGE
    taker = assembler(10)
    taker.feed(ws.BINARY, b"a" * 6, fin=False)
    assert taker.feed(0, b"a" * 4, fin=True) == (ws.BINARY, b"a" * 10)


def test_endless_empty_fragments_are_refused() -> None:
    taker = ws.Assembler(100, fragments_len_max=3)
    taker.feed(ws.BINARY, b"", fin=False)
    taker.feed(ws.CONTINUATION, b"", fin=False)
    taker.feed(ws.CONTINUATION, b"", fin=False)
    assert refused(lambda: taker.feed(ws.CONTINUATION, b"", fin=False)) is Code.FRAME_TOO_LARGE


# --- UTF-8 -------------------------------------------------------------------------------------------


def first_bad_byte(data: bytes) -> int | None:
    """Where no continuation can make the bytes UTF-8 any more, by the table of RFC 3629."""
    at = 0
    while at < len(data):
        size, low, high = _lead(data[at])
        if not size:
            return at
        for index in range(1, size):
            if at + index >= len(data):
                return None
            if not low <= data[at + index] <= high:
                return at + index
            low, high = 0x80, 0xBF
        at += size
    return None


def _lead(byte: int) -> tuple[int, int, int]:
    if byte < 0x80:
        return 1, 0, 0
    if 0xC2 <= byte <= 0xDF:
        return 2, 0x80, 0xBF
    if 0xE0 <= byte <= 0xEF:
        return 3, 0xA0 if byte == 0xE0 else 0x80, 0x9F if byte == 0xED else 0xBF
    if 0xF0 <= byte <= 0xF4:
        return 4, 0x90 if byte == 0xF0 else 0x80, 0x8F if byte == 0xF4 else 0xBF
    return 0, 0, 0


def test_bad_text_is_noticed_with_the_first_byte_that_cannot_be_right() -> None:
    """All sequences of two bytes, and of three where the second byte has rules of its own."""
    texts = [bytes((a, b)) for a in range(0x80, 256) for b in range(256)]
    texts += [
        bytes((a, b, c))
        for a in (0xE0, 0xED, 0xF0, 0xF4)
        for b in (0x80, 0x90, 0xA0)
        for c in range(256)
    ]
    for text in texts:
        assert noticed_at(text) == first_bad_byte(text), text.hex()


def noticed_at(text: bytes) -> int | None:
    """Feed a text byte by byte; return the index of the byte that was refused."""
    taker = assembler()
    for index in range(len(text)):
        try:
            opcode = ws.CONTINUATION if index else ws.TEXT
            taker.feed(opcode, text[index : index + 1], fin=False)
        except DisconnectError:
            return index
    return None


@given(st.text(max_size=20), st.data())
def test_text_may_be_cut_anywhere(text: str, data: st.DataObject) -> None:
    encoded = text.encode(errors="replace")
    cut = data.draw(st.integers(0, len(encoded)))
    taker = assembler()
    taker.feed(ws.TEXT, encoded[:cut], fin=False)
    assert taker.feed(ws.CONTINUATION, encoded[cut:], fin=True) == (ws.TEXT, encoded)


def test_text_that_ends_inside_a_letter_is_refused() -> None:
    euro = "€".encode()
    taker = assembler()
    taker.feed(ws.TEXT, euro[:1], fin=False)
    assert refused(lambda: taker.feed(ws.CONTINUATION, euro[1:2], fin=True)) is Code.BAD_TEXT
    assert refused(lambda: assembler().feed(ws.TEXT, euro[:2], fin=True)) is Code.BAD_TEXT


@pytest.mark.parametrize(
    "text", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\x80"]
)
def test_a_whole_text_message_must_be_utf_8(text: bytes) -> None:
    assert refused(lambda: ws.check_text(text)) is Code.BAD_TEXT
    ws.check_text("κόσμε".encode())
    ws.check_text(b"plain")
