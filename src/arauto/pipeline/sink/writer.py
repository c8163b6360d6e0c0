"""The writers behind `df.write.format("arauto")` and `df.writeStream.format("arauto")`.

`write` runs in the executors, once per partition and attempt, and publishes at once: there is nothing to
undo later. What makes a repeated attempt harmless are the ids, which are the same each time, and which the
node remembers. `commit` only counts.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from arauto.errors import ArautoError, Code
from arauto.pipeline.node_api import NodeApi, Outcome, Outgoing, Retry
from arauto.pipeline.node_wire import of_one_hub
from arauto.pipeline.sink.options import SinkOptions, check_columns
from arauto.pipeline.sink.rows import LoopError, rows_of, to_message

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # type: ignore[import-untyped]

__all__ = ["ArrowBatchWriter", "ArrowStreamWriter", "Counts", "Publisher"]

_log = logging.getLogger(__name__)

_ATTEMPTS_MAX = 100

#: Refusals of a whole request that are about its messages' hub, not about the sink.
_ABOUT_HUB = frozenset({Code.BAD_HUB_NAME, Code.UNKNOWN_HUB})


@dataclass
class Counts(WriterCommitMessage):
    """What became of the rows of a partition."""

    published: int = 0
    repeated: int = 0
    """Published by an earlier attempt already."""
    refused: int = 0
    looped: int = 0
    """Left out, since they had come through the pipeline too often."""
    first_refusal: str = ""
    left_out: dict[str, int] = field(default_factory=dict)
    """By hub: rows that it took no more of just then, while other hubs were not to wait for it."""

    def add(self, more: "Counts") -> None:
        self.published += more.published
        self.repeated += more.repeated
        self.refused += more.refused
        self.looped += more.looped
        self.first_refusal = self.first_refusal or more.first_refusal
        for hub, rows in more.left_out.items():
            self.left_out[hub] = self.left_out.get(hub, 0) + rows

    def refuse(self, hub: str, channel: str, error: ArautoError) -> None:
        self.refused += 1
        self.first_refusal = self.first_refusal or f"{hub or '?'}/{channel}: {error}"

    def check(self, refused_max: int) -> None:
        """Fail if too much was refused.

        Raises:
            ArautoError: BAD_FIELD, naming the first refusal.
        """
        if self.refused > refused_max:
            raise ArautoError(
                Code.BAD_FIELD,
                f"{self.refused} rows were refused, and maxRefused is {refused_max}; "
                f"the first: {self.first_refusal}",
            )


class Publisher:
    """Publishes what an executor gets, batch by batch. Connects when there is something to publish.

    Args:
        options: the sink's.
        counts: told what became of the rows.
        wait_for_hubs: False = what only one hub suffers, such as a quota that is used up, is left out and
            counted. Otherwise it is tried again, and in the end fails the query, which is right for
            a query of one tenant and wrong for one that serves them all.
    """

    def __init__(self, options: SinkOptions, counts: Counts, *, wait_for_hubs: bool = True) -> None:
        self._options = options
        self._counts = counts
        self._wait_for_hubs = wait_for_hubs
        self._api: NodeApi | None = None

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(self, *error: object) -> None:
        if self._api is not None:
            self._api.close()

    def publish(self, batch: "RecordBatch") -> None:
        """Publish the rows of a batch, in order.

        Raises:
            ArautoError: NODE_UNREACHABLE and whatever else may pass, after retries; ADMIN_DENIED; BAD_FIELD
                if more than `maxRefused` rows were refused.
        """
        if not batch.num_rows:
            return
        if self._api is None:
            retry = Retry(attempts_max=_ATTEMPTS_MAX, total_s=self._options.retry_s)
            self._api = NodeApi(self._options.url, self._options.token, retry=retry)
        failure: ArautoError | None = None
        for hub, messages in _by_hub(batch, self._options, self._counts).items():
            try:
                self._publish(self._api, hub, messages)
            except ArautoError as error:
                if not of_one_hub(error):
                    raise
                # The next attempt begins with the same hubs: those behind this one get theirs now.
                failure = failure or error
            self._counts.check(self._options.refused_max)
        if failure is not None:
            raise failure
        self._counts.check(self._options.refused_max)

    def _publish(self, api: NodeApi, hub: str, messages: list[Outgoing]) -> None:
        counts = self._counts
        try:
            outcomes = api.publish(hub, messages, wait_for_hub=self._wait_for_hubs)
        except ArautoError as refusal:
            if refusal.code not in _ABOUT_HUB:
                raise
            outcomes = [Outcome(refusal)] * len(messages)
        for message, outcome in zip(messages, outcomes, strict=True):
            error = outcome.error
            if error is None:
                counts.published += not outcome.duplicate
                counts.repeated += outcome.duplicate
            elif of_one_hub(error) and not self._wait_for_hubs:
                counts.left_out[hub] = counts.left_out.get(hub, 0) + 1
            elif error.retryable:
                # Not the row's fault: the whole batch is to be tried again.
                raise error
            else:
                counts.refuse(hub, message.channel, error)


def _by_hub(
    batch: "RecordBatch", options: SinkOptions, counts: Counts
) -> dict[str, list[Outgoing]]:
    """Messages of a batch, in order, by hub. What cannot be sent is counted here."""
    found: dict[str, list[Outgoing]] = {}
    for row in rows_of(batch):
        try:
            hub, message = to_message(row, options)
        except LoopError:
            counts.looped += 1
        except ArautoError as error:
            counts.refuse(row.get("hub") or options.hub, str(row.get("channel")), error)
        else:
            found.setdefault(hub, []).append(message)
    return found


class _Writing:
    """What batch and stream writers share. Pickled to the executors."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self._options = options

    def write(self, iterator: Iterator["RecordBatch"]) -> WriterCommitMessage:
        counts = Counts()
        with Publisher(self._options, counts) as publisher:
            for batch in iterator:
                publisher.publish(batch)
        return counts

    def _finish(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        counts = Counts()
        for message in messages:
            if isinstance(message, Counts):
                counts.add(message)
        level = logging.WARNING if counts.refused or counts.looped else logging.DEBUG
        _log.log(
            level,
            "published %d, repeated %d, refused %d, looped %d",
            counts.published,
            counts.repeated,
            counts.refused,
            counts.looped,
        )
        # Each partition was within the limit; together they may not be.
        counts.check(self._options.refused_max)


class ArrowBatchWriter(_Writing, DataSourceArrowWriter):
    """Publishes the rows of a frame."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._finish(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing to undo: what was published stays, and is not published again by a retry."""


class ArrowStreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Publishes the rows of a stream, batch by batch."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._finish(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to undo, as in `ArrowBatchWriter.abort`."""
