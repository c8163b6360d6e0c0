"""Bounds, as arithmetic."""

import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.mining.caps import sequences_within, sets_within, shorten
from arauto.pipeline.mining.options import Caps, MiningOptions
from arauto.pipeline.mining.support import least_count


def test_small_baskets_keep_their_length() -> None:
    assert (
        shorten({3: 1_000, 5: 10}, sets_within, count_min=5, size_max=30, patterns_max=10_000) == 30
    )


def test_baskets_are_cut_until_the_bound_holds() -> None:
    size = shorten({30: 1_000}, sets_within, count_min=10, size_max=30, patterns_max=100_000)
    assert 1_000 * sets_within(size) // 10 <= 100_000 < 1_000 * sets_within(size + 1) // 10


def test_a_hopeless_bound_leaves_one_item() -> None:
    assert shorten({30: 10**9}, sets_within, count_min=1, size_max=30, patterns_max=1_000) == 1


def test_sequences_of_few_labels_are_few() -> None:
    assert sequences_within(100, longest=3, labels=2) == 2 + 4 + 8
    assert sequences_within(4, longest=2, labels=100) == 4 + 6


@pytest.mark.parametrize(
    ("total", "share", "floor", "count"),
    [(100, 0.07, 1, 7), (100, 0.071, 1, 8), (100, 0.01, 5, 5), (0, 0.5, 5, 5)],
)
def test_the_least_count(total: int, share: float, floor: int, count: int) -> None:
    assert least_count(total, share, floor) == count


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"items": ()}, "items"),
        ({"items": ("payload.a", "payload.a")}, "items"),
        ({"items": ("nothing",)}, "items"),
        ({"kind": "other"}, "kind"),
        ({"kind": "sequences"}, "per"),
        ({"kind": "sequences", "per": "user", "items": ("channel", "key")}, "items"),
        ({"kind": "sequences", "per": "user", "items": ("payload.a[*]",)}, "items"),
        ({"per": "hub"}, "per"),
        ({"window_s": 0}, "window_s"),
        ({"support_min": 1.5}, "support_min"),
        ({"hub": "no hub"}, "hub"),
    ],
)
def test_bad_options_name_their_field(more: dict[str, object], field: str) -> None:
    with pytest.raises(ArautoError) as caught:
        MiningOptions(**{"hub": "shop", "kind": "sets", "items": ("payload.a",)} | more)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_bad_caps_name_their_field() -> None:
    with pytest.raises(ArautoError, match="items_max") as caught:
        Caps(items_max=1)
    assert caught.value.code is Code.BAD_FIELD


def test_the_same_question_has_the_same_name_and_another_one_has_not() -> None:
    one = MiningOptions("shop", "sets", ("payload.a", "payload.b"))
    assert one.job == MiningOptions("shop", "sets", ("payload.b", "payload.a")).job
    assert one.job != MiningOptions("mall", "sets", ("payload.a", "payload.b")).job
