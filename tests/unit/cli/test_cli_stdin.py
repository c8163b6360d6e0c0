"""Standard input becomes lines, as soon as they are there, however the bytes arrive."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from arauto.cli import stdin
from arauto.cli.stdin import LineTooLongError, read_lines


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    ends = {reader, writer}
    try:
        yield reader, writer
    finally:
        for end in ends:
            with suppress(OSError):  # the test closed it
                os.close(end)


async def all_lines(fd: int) -> list[bytes]:
    return [line async for lines in read_lines(fd) for line in lines]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one", [b"one"]),
        (b"one\n", [b"one"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"one\r\ntwo\r\n", [b"one", b"two"]),
        (b"\n\nthree\n", [b"", b"", b"three"]),
        (b"\xff\x00\n", [b"\xff\x00"]),
    ],
)
async def test_a_pipe_is_cut_at_line_breaks(data: bytes, lines: list[bytes]) -> None:
    with pipe() as (reader, writer):
        os.write(writer, data)
        os.close(writer)
        assert await all_lines(reader) == lines


async def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    expected = [f"line {number}".encode() for number in range(50_000)]
    file.write_bytes(b"\n".join(expected))
    with file.open("rb") as opened:
        assert await all_lines(opened.fileno()) == expected


async def test_a_line_is_there_before_the_next_one_is_written() -> None:
    with pipe() as (reader, writer):
        batches = read_lines(reader)
        for text in (b"one", b"two", b"three"):
            os.write(writer, text + b"\n")
            assert await anext(batches) == [text]
        os.close(writer)
        with pytest.raises(StopAsyncIteration):
            await anext(batches)


async def test_a_line_may_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin, "_READ_BYTES", 3)
    with pipe() as (reader, writer):
        os.write(writer, b"a long line\nshort\nthe end")
        os.close(writer)
        assert await all_lines(reader) == [b"a long line", b"short", b"the end"]


async def test_a_line_longer_than_any_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin, "LINE_BYTES_MAX", 100)
    with pipe() as (reader, writer):
        os.write(writer, b"x" * 101)
        with pytest.raises(LineTooLongError, match="100 bytes"):
            await all_lines(reader)
