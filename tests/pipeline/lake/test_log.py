"""A table's commits as files, without Spark."""

from pathlib import Path

import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.log import CommitLog
from arauto.pipeline.lake.manifest import Commit, FileEntry, State, fold, select


def _file(
    path: str, *, hubs: tuple[str, str] = ("a", "z"), ms: tuple[int, int] = (10, 20)
) -> FileEntry:
    return FileEntry(
        path=path,
        rows=1,
        size_bytes=1,
        min_ms=ms[0],
        max_ms=ms[1],
        first_hub=hubs[0],
        last_hub=hubs[1],
    )


def _commit(state: State, **more: object) -> Commit:
    return Commit(number=state.number + 1, made_ms=1, schema_version=1, **more)  # type: ignore[arg-type]


def _batch(log: CommitLog, batch_id: int) -> None:
    log.commit(lambda s: _commit(s, query="q", batch_id=batch_id, added=(_file(f"f{batch_id}"),)))


def test_another_reader_sees_the_same_state_after_many_commits(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    for number in range(160):
        _batch(log, number)
    other = CommitLog(tmp_path, 1).state()
    assert other == log.state()
    assert (other.number, len(other.files), other.batches) == (160, 160, {"q": 159})
    # Opening reads a kept state and what came after it; what two states make needless is gone.
    assert len(list((tmp_path / "_commits").iterdir())) < 70


def test_a_writer_that_was_overtaken_decides_anew(tmp_path: Path) -> None:
    one, other = CommitLog(tmp_path, 1), CommitLog(tmp_path, 1)
    seen = []

    def decide(state: State) -> Commit:
        seen.append(state.number)
        if len(seen) == 1:
            _batch(other, 0)
        return _commit(state, query="late", batch_id=0)

    one.commit(decide)
    assert seen == [0, 1]
    assert one.state().batches == {"q": 0, "late": 0}


def test_a_commit_that_is_damaged_or_lost_is_told(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 1)
    for number in range(3):
        _batch(log, number)
    second = tmp_path / "_commits" / f"{2:020d}.json"
    for damage in (lambda: second.write_bytes(b"{"), second.unlink):
        damage()
        with pytest.raises(ArautoError) as raised:
            CommitLog(tmp_path, 1).state()
        assert raised.value.code is Code.LAKE_CORRUPT


def test_notes_and_coverage_add_up_and_merged_files_belong_to_no_batch() -> None:
    state = State()
    state = fold(state, _commit(state, query="q", batch_id=4, added=(_file("a"),), notes={"n": 1}))
    state = fold(state, _commit(state, query="q", batch_id=5, coverage={"n1": ((1, 3),)}))
    state = fold(state, _commit(state, removed=("a",), added=(_file("b"),), notes={"n": 2}))
    state = fold(state, _commit(state, query="p", batch_id=0, coverage={"n1": ((4, 4),)}))
    assert {path: file.commit for path, file in state.files.items()} == {"b": 0}
    assert (state.notes, state.coverage, state.batches) == (
        {"n": 3},
        {"n1": ((1, 4),)},
        {"q": 5, "p": 0},
    )
    with pytest.raises(ValueError, match="not there"):
        fold(state, _commit(state, removed=("a",)))


def test_files_are_chosen_by_time_and_hub() -> None:
    files = [_file("a", ms=(0, 9)), _file("b", ms=(10, 19)), _file("c", hubs=("m", "n"))]

    def chosen(**wanted: object) -> list[str]:
        return [file.path for file in select(files, **wanted)]  # type: ignore[arg-type]

    assert chosen() == ["a", "b", "c"]
    assert chosen(from_ms=9, to_ms=10) == ["a"]
    assert chosen(from_ms=10, to_ms=11) == ["b", "c"]
    assert chosen(hub="m", from_ms=10) == ["b", "c"]
    assert chosen(hub="b") == ["a", "b"]
