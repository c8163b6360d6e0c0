"""Laws of the document engine, against a naive implementation of RFC 6902."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arauto.codec.events import Operation
from arauto.errors import ArautoError
from arauto.features.document.patch import Applied, Document, apply
from arauto.features.document.value import clone, measure
from tests.unit.document.cases import OracleError, batches_for, cases, documents, oracle_apply, same

_Case = tuple[Any, list[Operation]]


def _try_apply(document: Document, batch: list[Operation], *, strict: bool) -> Applied | None:
    try:
        return apply(document, batch, strict=strict)
    except ArautoError:
        return None


def _assert_exact_size(document: Document) -> None:
    size = measure(document.value)
    assert (document.nodes, document.size_bytes) == (size.nodes, size.size_bytes)
    assert document.held_bytes == size.held_bytes


@given(cases)
def test_strict_mode_does_what_the_standard_says(case: _Case) -> None:
    before, batch = case
    document = Document(clone(before))
    try:
        expected = oracle_apply(before, batch)
    except OracleError:
        assert _try_apply(document, batch, strict=True) is None
        assert same(document.value, before)
    else:
        assert _try_apply(document, batch, strict=True) is not None
        assert same(document.value, expected)
    _assert_exact_size(document)


@given(cases, st.booleans())
def test_a_batch_applies_whole_or_not_at_all_and_can_be_undone(case: _Case, strict: bool) -> None:
    before, batch = case
    document = Document(clone(before))
    applied = _try_apply(document, batch, strict=strict)
    _assert_exact_size(document)
    if applied is not None:
        applied.revert()
    assert same(document.value, before)
    _assert_exact_size(document)


@given(cases)
def test_friendly_changes_replay_as_plain_json_patch(case: _Case) -> None:
    before, batch = case
    document = Document(clone(before))
    applied = _try_apply(document, batch, strict=False)
    if applied is not None:
        assert same(oracle_apply(before, applied.operations), document.value)


@given(cases)
def test_what_strict_mode_accepts_friendly_mode_accepts_alike(case: _Case) -> None:
    before, batch = case
    strict, friendly = Document(clone(before)), Document(clone(before))
    if _try_apply(strict, batch, strict=True) is not None:
        assert _try_apply(friendly, batch, strict=False) is not None
        assert same(strict.value, friendly.value)


class Documents(RuleBasedStateMachine):
    """A long life of one document beside its naive twin, with changes reverted now and then."""

    @initialize(start=documents)
    def begin(self, start: Any) -> None:
        self.document = Document(clone(start))
        self.twins = [start]
        self.applied: list[Applied] = []

    @rule(data=st.data(), strict=st.booleans())
    def change(self, data: st.DataObject, strict: bool) -> None:
        batch = data.draw(batches_for(self.twins[-1], max_size=2))
        applied = _try_apply(self.document, batch, strict=strict)
        if applied is not None:
            self.applied.append(applied)
            self.twins.append(oracle_apply(self.twins[-1], applied.operations))

    @rule(count=st.integers(1, 3))
    def revert(self, count: int) -> None:
        for _ in range(min(count, len(self.applied))):
            self.applied.pop().revert()
            self.twins.pop()

    @invariant()
    def the_document_is_its_twin_and_knows_its_size(self) -> None:
        assert same(self.document.value, self.twins[-1])
        _assert_exact_size(self.document)


TestDocuments = Documents.TestCase
TestDocuments.settings = settings(stateful_step_count=15)
