"""Documents and changes as bytes: what goes in comes out, and nothing else does."""

import tracemalloc
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code, StorageError
from arauto.features.document.encode import (
    SEALED_BYTES_MAX,
    dump_change,
    dump_document,
    load_change,
    load_document,
    pack_document,
    seal,
)
from arauto.features.document.value import Limits, check
from tests.unit.document.cases import add, cases, documents, same

_versions = st.integers(0, 2**63 - 1)


@given(_versions, documents)
def test_a_document_survives_the_round_trip(version: int, value: Any) -> None:
    loaded_version, loaded = load_document(dump_document(version, value))
    assert loaded_version == version
    assert same(loaded, value)


@given(_versions, cases)
def test_a_change_survives_the_round_trip(version: int, case: tuple[Any, list[Operation]]) -> None:
    batch = case[1]
    loaded_version, loaded = load_change(dump_change(version, batch))
    assert loaded_version == version
    assert [(each.op, each.path, each.source) for each in loaded] == [
        (each.op, each.path, each.source) for each in batch
    ]
    assert same([each.value for each in loaded], [each.value for each in batch])


def test_numbers_keep_their_kind() -> None:
    value: list[Any] = [1, 1.0, -0.0, True, 2**63 - 1, -(2**63)]
    loaded: Any = load_document(dump_document(1, value))[1]
    assert [repr(item) for item in loaded] == [repr(item) for item in value]


def test_large_documents_are_compressed_and_small_changes_stay_small() -> None:
    large: Any = {"rows": [{"name": "a product", "stock": 7}] * 1_000}
    assert len(dump_document(1, large)) < len(pack_document(1, large)) / 20
    assert len(dump_change(1, [add("/a", 1)])) < 25


def test_the_format_of_today_stays_readable() -> None:
    """Bytes written once and for all: a change of the format must come with a new first byte."""
    small = bytes.fromhex("01920782a161c3a162c40101b80bb075")
    assert load_document(small) == (7, {"a": True, "b": b"\x01"})
    large = b"\x02" + zlib.compress(msgspec.msgpack.encode([7, "x" * 1_000]))
    assert load_document(large) == (7, "x" * 1_000)
    change = bytes.fromhex("0192029194a3616464a22f61a0050f9d49c5")
    assert load_change(change) == (2, (add("/a", 5),))


@given(st.data(), documents)
def test_a_flipped_bit_is_noticed_or_changes_nothing(data: st.DataObject, value: Any) -> None:
    """A compressed stream has a few bits that mean nothing, such as the padding of its last byte."""
    document = [value, "x" * data.draw(st.sampled_from([0, 500]))]
    flipped = bytearray(dump_document(3, document))
    flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        version, loaded = load_document(bytes(flipped))
    except StorageError as error:
        assert error.code is Code.STORAGE_CORRUPT  # noqa: PT017 - both ways are right
    else:
        assert version == 3
        assert same(loaded, document)


def test_a_flipped_bit_is_nearly_always_noticed() -> None:
    for document in ("small", "x" * 500):
        whole = dump_document(3, document)
        unnoticed = 0
        for bit in range(8 * len(whole)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            try:
                load_document(bytes(flipped))
            except StorageError:
                continue
            unnoticed += 1
        assert unnoticed <= 8


@given(st.data(), documents)
def test_bytes_cut_off_or_added_are_noticed(data: st.DataObject, value: Any) -> None:
    whole = dump_document(3, [value, "x" * data.draw(st.sampled_from([0, 500]))])
    for damaged in (whole[: data.draw(st.integers(0, len(whole) - 1))], whole + b"\x00"):
        with pytest.raises(StorageError) as caught:
            load_document(damaged)
        assert caught.value.code is Code.STORAGE_CORRUPT


@given(st.binary(max_size=64))
def test_any_bytes_either_load_or_are_corrupt(noise: bytes) -> None:
    for data in (noise, seal(noise), b"\x02" + zlib.compress(noise)):
        for load in (load_document, load_change):
            try:
                load(data)
            except StorageError as error:
                assert error.code is Code.STORAGE_CORRUPT  # noqa: PT017 - both ways are right


def _pack(*parts: Any) -> bytes:
    return seal(msgspec.msgpack.encode(parts))


@pytest.mark.parametrize(
    "data",
    [
        _pack(1),
        _pack(1, 2, 3),
        _pack("1", {}),
        _pack(-1, {}),
        _pack(1, {1: 2}),
        _pack(1, {"a": 2**63}),
        _pack(1, float("nan")),
        _pack(1, msgspec.msgpack.Ext(5, b"x")),
        seal(b"\x92\x01" + b"\x91" * 5_000 + b"\x01"),
        seal(b"\x92\x01" + b"\x91" * 250 + b"\x01"),
        seal(b"\x92\x01\xd6\xff\x00\x00\x00\x00"),
    ],
)
def test_what_no_document_can_hold_is_corrupt(data: bytes) -> None:
    with pytest.raises(StorageError) as caught:
        load_document(data)
    assert caught.value.code is Code.STORAGE_CORRUPT


@pytest.mark.parametrize(
    "data",
    [_pack(1, 5), _pack(1, [["add"]]), _pack(1, [["add", 1, "", 0]]), _pack(-1, []), _pack(1, {})],
)
def test_what_no_change_can_be_is_corrupt(data: bytes) -> None:
    with pytest.raises(StorageError) as caught:
        load_change(data)
    assert caught.value.code is Code.STORAGE_CORRUPT


def test_a_decompression_bomb_stops_at_the_cap() -> None:
    compressor = zlib.compressobj(9)
    zeros = bytes(1_000_000)
    bomb = b"\x02" + b"".join(compressor.compress(zeros) for _ in range(500)) + compressor.flush()
    assert len(bomb) < 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(StorageError) as caught:
            load_document(bomb)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.code is Code.STORAGE_CORRUPT
    assert peak_bytes < 3 * SEALED_BYTES_MAX


def test_what_could_not_be_read_back_is_not_written() -> None:
    value = "x" * (2**25)
    with pytest.raises(ArautoError) as caught:
        dump_change(1, [add("/a", value)] * 3)
    assert (caught.value.code, caught.value.field) == (Code.BATCH_TOO_LARGE, "operations")


def test_the_largest_document_allowed_can_be_read_back() -> None:
    limits = Limits(text_bytes_max=2**26, size_bytes_max=2**26)
    value = ["x" * (2**26 - 10)]
    size = check(value, limits, nodes_room=limits.nodes_max, bytes_room=limits.size_bytes_max)
    assert size.size_bytes == limits.size_bytes_max
    assert load_document(dump_document(2**63 - 1, [*value])) == (2**63 - 1, value)
