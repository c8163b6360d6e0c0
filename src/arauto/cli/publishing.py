"""What `arauto pub` does once its options make sense: read, publish, print places, show progress."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Iterable

import msgspec
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from arauto.cli.console import errors
from arauto.cli.messages import format_serial
from arauto.cli.payloads import Form, Payload, read_payload
from arauto.cli.stdin import read_lines
from arauto.client import Client, Draft, PartialPublishError
from arauto.errors import ArautoError
from arauto.model import Serial
from arauto.printable import printable

__all__ = ["Publisher", "Receipts", "Source"]

_BATCH_LEN = 500


class Source:
    """Where messages come from. `total` counts messages, or bytes of a file; None = not known."""

    def __init__(self, payload: Payload | None, form: Form, repeat: int) -> None:
        self._payload = payload
        self._form = form
        self._repeat = repeat
        self.done = 0
        self.total: int | None = repeat
        if payload is None:
            about = os.fstat(sys.stdin.fileno())
            self.total = about.st_size if stat.S_ISREG(about.st_mode) else None

    async def batches(self, len_max: int) -> AsyncIterator[list[Payload]]:
        """Yield messages as they are there, at most so many at a time.

        Raises:
            ValueError: a line cannot be published the way it should be.
        """
        if self._payload is not None:
            for start in range(0, self._repeat, len_max):
                count = min(len_max, self._repeat - start)
                yield [self._payload] * count
                self.done += count
            return
        before = 1
        async for lines in read_lines(sys.stdin.fileno()):
            numbered = enumerate(lines, before)
            payloads = [self._read(line, number) for number, line in numbered if line.strip()]
            before += len(lines)
            for start in range(0, len(payloads), len_max):
                yield payloads[start : start + len_max]
            self.done += sum(len(line) + 1 for line in lines)

    def _read(self, line: bytes, number: int) -> Payload:
        try:
            return read_payload(line, self._form)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


class Publisher:
    """Publishes what a source has, in order."""

    def __init__(
        self, client: Client, like: Draft, receipts: "Receipts", interval_s: float
    ) -> None:
        self._client = client
        self._like = like
        self._receipts = receipts
        self._interval_s = interval_s

    async def run(self, source: Source) -> None:
        """Publish everything.

        Raises:
            ArautoError: the node refused a message, or cannot be reached.
        """
        len_max = 1 if self._interval_s else _BATCH_LEN
        first = True
        async with self._client:
            with _Bar(source, shown=self._receipts.are_hidden) as bar:
                async for payloads in source.batches(len_max):
                    if self._interval_s and not first:
                        await asyncio.sleep(self._interval_s)
                    first = False
                    await self._publish(payloads)
                    bar.advance(len(payloads))

    async def _publish(self, payloads: list[Payload]) -> None:
        replace = msgspec.structs.replace
        drafts = [
            replace(self._like, data=payload.data, content_type=payload.content_type)
            for payload in payloads
        ]
        try:
            self._receipts.show(await self._client.publish_many(drafts))
        except PartialPublishError as error:
            self._receipts.show(error.results)
            raise next(
                result for result in error.results if isinstance(result, ArautoError)
            ) from None


class Receipts:
    """Prints the place each message got."""

    def __init__(self, channel: str, *, as_json: bool, quiet: bool) -> None:
        self._channel = channel
        self._as_json = as_json
        self._quiet = quiet and not as_json
        self.are_hidden = self._quiet or not sys.stdout.isatty()

    def show(self, results: Iterable[Serial | ArautoError]) -> None:
        if self._quiet:
            return
        write = sys.stdout.write
        for result in results:
            if self._as_json:
                write(msgspec.json.encode(self._as_object(result)).decode() + "\n")
            elif isinstance(result, Serial):
                write(f"{printable(self._channel)} {format_serial(result)}\n")
        sys.stdout.flush()

    def _as_object(self, result: Serial | ArautoError) -> dict[str, object]:
        if isinstance(result, Serial):
            serial = {"epoch": f"{result.epoch:016x}", "offset": result.offset}
            return {"channel": self._channel, "serial": serial}
        error = {"code": int(result.code), "message": result.message, "field": result.field}
        return {"channel": self._channel, "error": error}


class _Bar:
    """How far we are, on stderr, where nothing else shows it and there is more than a moment's work."""

    def __init__(self, source: Source, *, shown: bool) -> None:
        self._source = source
        self._published = 0
        console = errors()
        worth = source.total is None or source.total > _BATCH_LEN
        self._progress = Progress(
            TextColumn("{task.fields[published]} published"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not (shown and worth and console.is_terminal),
        )
        self._task: TaskID = self._progress.add_task("", total=source.total, published=0)

    def advance(self, count: int) -> None:
        self._published += count
        self._progress.update(self._task, completed=self._source.done, published=self._published)

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
