"""What a name may hold: everything that shows, and nothing that does not. Over all of Unicode."""

import json
import sys
import unicodedata
from pathlib import Path

import idna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from idna import idnadata

from arauto.errors import ArautoError, Code
from arauto.names import check_channel, check_kept, check_pattern
from arauto.session.auth.identity import check_user
from arauto.visible import hidden_in

_VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "names.json").read_text("utf-8"))
_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
_JOINERS = ("\u200c", "\u200d")

#: DerivedCoreProperties.txt: Default_Ignorable_Code_Point.
_IGNORABLE = [
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
]  # fmt: skip
#: HangulSyllableType.txt: L, V and T.
_JAMO = [(0x1100, 0x11FF), (0xA960, 0xA97C), (0xD7B0, 0xD7C6), (0xD7CB, 0xD7FB)]
_BLANK = {0x2800, 0xFFFC, 0x1D159, 0x13441, 0x13442}
#: Marks of old scripts without a shape of their own: a filler of Khitan, joiners of Tifinagh and Brahmi.
_SHAPELESS = {0x16FE4, 0x2D7F, 0x1107F}


def everything() -> range:
    return range(sys.maxunicode + 1)


def among(code: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in ranges)


def is_fit(code: int) -> bool:
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"):
        return False
    if code in _BLANK or code in _SHAPELESS:
        return False
    return not among(code, _IGNORABLE) and not among(code, _JAMO)


def test_each_character_is_allowed_or_not_as_its_properties_say_wherever_it_stands() -> None:
    wrong = [
        code
        for code in everything()
        for name in (f"a{chr(code)}b", f"\u00e9{chr(code)}")
        if (hidden_in(name) == "") is not is_fit(code)
    ]
    assert [f"U+{code:04X}" for code in wrong] == []


def test_every_letter_that_a_domain_name_may_hold_and_that_shows_may_stand_in_a_name() -> None:
    known = (
        chr(code)
        for packed in idnadata.codepoint_classes["PVALID"]
        for code in range(packed >> 32, packed & 0xFFFFFFFF)
        if unicodedata.category(chr(code)) != "Cn" and code not in _BLANK | _SHAPELESS
    )
    assert [char for char in known if hidden_in(char)] == []


@pytest.mark.parametrize("joiner", _JOINERS)
def test_a_joiner_is_allowed_between_arabic_letters_exactly_where_it_acts(joiner: str) -> None:
    letters = [c for c in map(chr, range(0x0600, 0x0700)) if unicodedata.category(c) == "Lo"]
    wrong = [
        before + mark + after
        for before in letters
        for after in letters
        for mark in ("", "\u064e")
        if (not hidden_in(f"{before}{mark}{joiner}{after}"))
        is not idna.valid_contextj(f"{before}{mark}{joiner}{after}", 1 + len(mark))
    ]
    assert wrong == []


@pytest.mark.parametrize("joiner", _JOINERS)
def test_a_joiner_is_allowed_behind_a_virama_only_where_the_standard_allows_it(joiner: str) -> None:
    viramas = [
        chr(code)
        for code in everything()
        if unicodedata.combining(chr(code)) == 9 and code not in _SHAPELESS
    ]
    assert len(viramas) > 30
    for virama in viramas:
        assert not hidden_in(f"\u0915{virama}{joiner}\u0937")
        assert hidden_in(f"\u0915{virama}{joiner}") == joiner
        assert hidden_in(f"\u0915{virama}{joiner}-") == joiner
    for code in everything():
        before = chr(code)
        if not hidden_in(f"{before}{joiner}\u0937"):
            assert idna.valid_contextj(f"{before}{joiner}\u0937", 1)


@given(_TEXT)
def test_a_name_that_is_taken_holds_nothing_that_does_not_show(name: str) -> None:
    try:
        check_pattern(name)
    except ArautoError:
        return
    assert unicodedata.normalize("NFC", name) == name
    assert all(is_fit(ord(char)) for char in name if char not in _JOINERS)
    bare = "".join(char for char in name if char not in _JOINERS)
    assert hidden_in(bare) == ""


@pytest.mark.parametrize("vector", _VECTORS, ids=[vector["name"] for vector in _VECTORS])
def test_channels_patterns_and_users_follow_the_vectors(vector: dict[str, str]) -> None:
    name = vector["channel"]
    for check in (check_channel, check_pattern, check_user):
        if vector["valid"]:
            check(name)
            continue
        with pytest.raises(ArautoError):
            check(name)


def test_a_refusal_names_the_character() -> None:
    with pytest.raises(ArautoError, match=r"U\+202E") as caught:
        check_channel("a\u202eb")
    assert caught.value.code is Code.BAD_CHANNEL_NAME


def test_a_name_of_an_earlier_version_can_still_be_looked_up() -> None:
    assert check_kept("admin\u200b") == "admin\u200b"
    for name in ("", "a b", "a\x00", "\ud800", "a*", "x" * 256):
        with pytest.raises(ArautoError):
            check_kept(name)
