"""Checkpoints as releases left them: how one is made, and how a test takes it up.

`python -m tests.pipeline.rules.checkpoint` writes the one of the plan's present version. Do so once, when
`PLAN_VERSION` grows, and remove the one before: a plan of another number has a directory of its own and
starts anew, so only releases of the same number take up each other's state.
"""

import tarfile
import tempfile
from pathlib import Path

from arauto.pipeline.rules.stream import PLAN_VERSION, QUERIES
from arauto.pipeline.session import open_spark
from tests.pipeline.rules.support import heartbeat, message, programs, run_stream, write_rows

__all__ = ["KEPT", "RULES", "first_step", "second_step", "unpack"]

KEPT = Path(__file__).with_name("checkpoints")

#: The rules that ran. A rule of either path is half way when the checkpoint is made.
RULES = """
rule: pair
version: 1
key: [payload.who]
sequence:
  - {as: one, where: "payload.step = '1'"}
  - {as: two, where: "payload.step = '2'"}
within: 1h
emit: {channel: alerts, payload: {who: key.who, n: one.payload.n}}
---
rule: counted
version: 1
key: [payload.who]
count: {}
window: 1m
when: count >= 2
emit: {channel: alerts, payload: {n: count}}
"""


def first_step() -> list[list[dict[str, object]]]:
    """What happened before the checkpoint was made."""
    return [[_step(1, 1_000, 1)], [heartbeat(2, 20_000)]]


def second_step() -> list[list[dict[str, object]]]:
    """What happens after: it completes both rules, if their state is still there."""
    return [[_step(3, 30_000, 2)], [heartbeat(4, 120_000)]]


def unpack(version: int, directory: Path) -> Path:
    """The checkpoint of a version, ready to start from."""
    with tarfile.open(KEPT / f"v{version}.tar.gz") as kept:
        kept.extractall(directory, filter="data")
    return directory


def _step(seq: int, at_ms: int, step: int) -> dict[str, object]:
    return message(seq, at_ms, f'{{"who": "ann", "step": "{step}", "n": {seq}}}')


def _write() -> None:
    with tempfile.TemporaryDirectory() as made:
        base = Path(made)
        write_rows(base / "in", first_step())
        with open_spark("checkpoint", base / "spark", master="local[2]") as spark:
            run_stream(spark, base / "in", programs(RULES), base / "checkpoint")
        KEPT.mkdir(exist_ok=True)
        with tarfile.open(KEPT / f"v{PLAN_VERSION}.tar.gz", "w:gz") as kept:
            for query in QUERIES:
                inside = f"{query}/v{PLAN_VERSION}"
                kept.add(base / "checkpoint" / inside, inside, filter=_anonymous)


def _anonymous(item: tarfile.TarInfo) -> tarfile.TarInfo | None:
    item.uid = item.gid = 0
    item.uname = item.gname = ""
    # Spark's sums of files that it does not check when it starts.
    return None if item.name.endswith(".crc") else item


if __name__ == "__main__":
    _write()
