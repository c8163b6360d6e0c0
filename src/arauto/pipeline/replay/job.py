"""A whole replay: look at the past, then publish it piece by piece."""

from collections.abc import Callable
from dataclasses import dataclass

from arauto.pipeline.lake.table import Lake
from arauto.pipeline.node_api import NodeApi
from arauto.pipeline.replay.engine import Limits, Replayer, World
from arauto.pipeline.replay.past import Summary, read_slice, select, slices, summarise, top_channels
from arauto.pipeline.replay.progress import Progress, ProgressFile
from arauto.pipeline.replay.spec import ReplaySpec, check_spec, duration_s

__all__ = ["Preview", "preview", "run_replay"]

_TOP_CHANNELS = 20


@dataclass(frozen=True, slots=True)
class Preview:
    """What a replay would do."""

    summary: Summary
    channels: list[tuple[str, int]]
    """The largest, with their numbers of messages."""
    duration_s: float


def preview(lake: Lake, spec: ReplaySpec, after: tuple[int, str, int] | None = None) -> Preview:
    """Look at what a replay would publish, and how long that takes at least.

    Raises:
        ArautoError: the spec makes no sense, or the lake cannot be read.
    """
    check_spec(spec)
    frame = select(lake, spec, after)
    found = summarise(frame)
    lasts_s = duration_s(found.rows, found.first_ms, found.last_ms, spec.speed, spec.rate_max)
    return Preview(found, top_channels(frame, _TOP_CHANNELS) if found.rows else [], lasts_s)


def run_replay(
    lake: Lake,
    api: NodeApi,
    file: ProgressFile,
    progress: Progress,
    limits: Limits,
    *,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    world: World | None = None,
) -> Progress:
    """Publish all that is left.

    Raises:
        ArautoError: as `Replayer.run`. What was done by then is saved.
    """
    spec = progress.spec
    replayer = Replayer(api, file, progress, limits, on_progress=on_progress, world=world)
    replayer.save()
    frame = select(lake, spec, progress.place)
    pieces = slices(frame, summarise(frame))
    for piece in pieces:
        replayer.run(read_slice(lake, spec, piece, progress.place))
    replayer.finish()
    return progress
