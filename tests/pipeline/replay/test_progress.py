"""A replay's progress is never half written, and nobody runs a replay twice at once."""

from pathlib import Path

import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.replay.progress import Progress, ProgressFile
from arauto.pipeline.replay.spec import ReplaySpec

SPEC = ReplaySpec(id="r1", hub="shop", channels=("a:*",), from_ms=1, to_ms=2, speed=2.5)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    saved = Progress(spec=SPEC, place=(1, "node-1", 7), published=3, repeated=2, refused=1)
    ProgressFile(tmp_path, "r1").save(saved)
    loaded = ProgressFile(tmp_path, "r1").load()
    assert loaded == saved
    assert loaded.handled == 6


def test_saving_leaves_one_file_behind(tmp_path: Path) -> None:
    file = ProgressFile(tmp_path, "r1")
    for published in range(3):
        file.save(Progress(spec=SPEC, published=published))
    assert [path.name for path in (tmp_path / "_replays").iterdir()] == ["r1.json"]
    assert file.load().published == 2


def test_an_unknown_replay_is_said_to_be_that(tmp_path: Path) -> None:
    with pytest.raises(ArautoError, match="no replay r2") as caught:
        ProgressFile(tmp_path, "r2").load()
    assert caught.value.code is Code.NOT_FOUND


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    file = ProgressFile(tmp_path, "r1")
    file.save(Progress(spec=SPEC))
    file.path.write_bytes(file.path.read_bytes()[:-5])
    with pytest.raises(ArautoError) as caught:
        file.load()
    assert caught.value.code is Code.LAKE_CORRUPT


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden"])
def test_an_id_cannot_lead_out_of_the_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArautoError) as caught:
        ProgressFile(tmp_path, name)
    assert caught.value.code is Code.BAD_FIELD


def test_a_replay_runs_once_at_a_time(tmp_path: Path) -> None:
    with ProgressFile(tmp_path, "r1").held():
        with pytest.raises(ArautoError) as caught, ProgressFile(tmp_path, "r1").held():
            pass
        with ProgressFile(tmp_path, "r2").held():
            pass
    assert caught.value.code is Code.LAKE_BUSY
    with ProgressFile(tmp_path, "r1").held():
        pass
