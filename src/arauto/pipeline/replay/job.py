"""A whole replay: look at the past, then publish it piece by piece."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from arauto.errors import ArautoError, Code
from arauto.limits import BATCH_LEN_MAX
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.node_api import NodeApi
from arauto.pipeline.replay.engine import Limits, Replayer, World
from arauto.pipeline.replay.past import Summary, read_slice, select, slices, summarise, top_channels
from arauto.pipeline.replay.progress import Progress, ProgressFile
from arauto.pipeline.replay.spec import ReplaySpec, check_spec, duration_s

__all__ = ["Preview", "limits_for", "opened", "preview", "run_replay"]

_TOP_CHANNELS = 20
#: How much of a hub's quota a replay leaves alone.
_QUOTA_SHARE = 0.5


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


@contextmanager
def opened(
    lake: Lake, spec: ReplaySpec | None, resume: str = ""
) -> Iterator[tuple[ProgressFile, Progress]]:
    """The progress of a new replay, or of one to take up; nobody else runs it meanwhile.

    Raises:
        ArautoError: NOT_FOUND, CONFLICT (an id that is taken, or a replay that is done), LAKE_BUSY.
    """
    file = ProgressFile(lake.root, spec.id if spec is not None else resume)
    with file.held():
        if spec is None:
            progress = file.load()
            if progress.done:
                raise ArautoError(Code.CONFLICT, f"replay {resume} is done", field="resume")
        else:
            check_spec(spec)
            if file.exists():
                raise ArautoError(
                    Code.CONFLICT,
                    f"there is a replay {spec.id} already; resume it, or take another id",
                    field="id",
                )
            progress = Progress(spec=spec)
        yield file, progress


def limits_for(api: NodeApi, spec: ReplaySpec, *, skip_refused: bool = False) -> Limits:
    """What the hub's quota leaves for a replay.

    Under a quota some messages of a request may be refused and later ones taken, so each channel gets one
    message at a time. Without one nothing in between is refused, and requests may be full.
    """
    quota = api.messages_per_s(spec.to_hub)
    if not quota:
        return Limits(float(spec.rate_max), run_max=BATCH_LEN_MAX, skip_refused=skip_refused)
    rate = max(1.0, min(float(spec.rate_max), quota * _QUOTA_SHARE))
    return Limits(rate, run_max=1, skip_refused=skip_refused)


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
