"""Runs the export program beside the node: at intervals, when there is something new, one at a time."""

import asyncio
import logging
import os
import sys
from pathlib import Path

import msgspec

from arauto.clock import Clock, Timer
from arauto.errors import Code, StorageError
from arauto.storage.base import ExporterCounters, Storage
from arauto.storage.segments import ExportReport

__all__ = ["ExportSettings", "Exporter"]

_log = logging.getLogger(__name__)


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When and how the journal becomes segments."""

    interval_s: float = 10.0
    """How often to look for new rows."""
    timeout_s: float = 300.0
    """How long one run may take before it is ended."""
    segment_rows_max: int = 100_000
    segment_bytes_max: int = 64 * 1024 * 1024
    trim: bool = True
    """Whether exported rows that nothing else needs are deleted from the journal."""


class Exporter:
    """Keeps a node's segments up to date. `start` and `stop` it with the storage open."""

    def __init__(
        self,
        storage: Storage,
        node: str,
        directory: Path,
        clock: Clock,
        settings: ExportSettings | None = None,
    ) -> None:
        self._storage = storage
        self._node = node
        self._directory = directory
        self._clock = clock
        self._settings = settings or ExportSettings()
        self._timer: Timer | None = None
        self._task: asyncio.Task[bool] | None = None
        self._stopped = False
        self.counters = ExporterCounters()
        self.sealed_seq = -1
        """Everything up to here lies in segments; -1 until the first run has looked."""
        self.sealed = asyncio.Event()
        """Set once a run has sealed a segment."""

    def start(self) -> None:
        """Look for new rows from now on, first after one interval."""
        self._timer = self._clock.call_later(self._settings.interval_s, self._tick)

    async def stop(self) -> None:
        """End the timer and whatever runs. What was not exported waits for the next start."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _tick(self) -> None:
        self._timer = self._clock.call_later(self._settings.interval_s, self._tick)
        if self._storage.journal.last_seq > self.sealed_seq:
            self._running()

    def _running(self) -> asyncio.Task[bool]:
        """The run that is at work; a new one if there is none."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self.run_once(), name="arauto-exporter")
        return self._task

    async def export_now(self) -> int:
        """Seal all that is durable now, and return up to where rows are sealed then.

        Whoever asks meanwhile waits for the same runs; who stops to wait does not end them.

        Raises:
            StorageError: STORAGE_FAILED, the log says why; STORAGE_UNAVAILABLE, the node is stopping.
        """
        wanted = self._storage.journal.last_seq
        # A run that began before the newest of these rows may end without it; the next one has all.
        while self.sealed_seq < wanted:
            if self._stopped:
                raise StorageError(Code.STORAGE_UNAVAILABLE, "the node is shutting down")
            run = self._running()
            await asyncio.wait({run})
            if not run.cancelled() and not run.result():
                raise StorageError(
                    Code.STORAGE_FAILED, "the export failed; the node's log says why"
                )
        return self.sealed_seq

    async def run_once(self) -> bool:
        """Export what is new, then trim if so set. Whether it worked; why not is in the log."""
        self.counters.runs += 1
        try:
            report = await self._run_program()
            if self._settings.trim:
                now_ms = self._clock.wall_ms()
                trimmed = await self._storage.journal.trim(report.sealed_seq, now_ms)
                self.counters.trimmed += trimmed
        except Exception as exc:
            self.counters.failures += 1
            _log.warning("exporting the journal failed: %s", str(exc) or type(exc).__name__)
            return False
        self.counters.segments += report.segments
        self.counters.rows += report.rows
        self.sealed_seq = report.sealed_seq
        if report.segments:
            self.sealed.set()
        return True

    async def _run_program(self) -> ExportReport:
        settings = self._settings
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "arauto.storage.export",
            *("--node", self._node, "--out", str(self._directory)),
            *("--rows-max", str(settings.segment_rows_max)),
            *("--bytes-max", str(settings.segment_bytes_max)),
            # In the environment, because everyone on the machine can read a command line.
            env={**os.environ, "ARAUTO_EXPORT_URL": self._storage.url},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(settings.timeout_s):
                output, complaint = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            words = complaint.decode(errors="replace").strip()[-500:]
            raise RuntimeError(words or f"the exporter ended with {process.returncode}")
        return msgspec.json.decode(output, type=ExportReport)
