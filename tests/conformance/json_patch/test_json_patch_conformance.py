"""Strict mode against the public JSON Patch test suite, from the text of a request to the document.

The suite is the npm package `json-patch-test-suite`, pinned by `package-lock.json` beside this file and
installed with `npm ci`. Without npm these tests are skipped.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from arauto.codec.events import DocumentChangeRequest, Operation
from arauto.codec.json import JsonCodec
from arauto.codec.unknown import Unknown
from arauto.codec.unread import operations_of
from arauto.errors import ArautoError
from arauto.features.document.patch import Document, apply
from arauto.features.document.value import clone, equal

_SUITE = Path(__file__).parent / "node_modules" / "json-patch-test-suite"
_FILES = ("tests.json", "spec_tests.json")
_ENABLED_LEN = 75 + 16

if not _SUITE.is_dir():
    pytest.skip(
        "json-patch-test-suite is not installed: run `npm ci` in tests/conformance/json_patch",
        allow_module_level=True,
    )


def _load() -> list[Any]:
    return [
        pytest.param(case, id=f"{name}-{index}-{case.get('comment', '')}")
        for name in _FILES
        for index, case in enumerate(json.loads((_SUITE / name).read_text()))
        # Two disabled cases have an object with the same member twice, which is lost in parsing. The
        # other disabled ones are about documents that are no objects, and those we do promise.
        if not (case.get("disabled") and "error" in case)
    ]


_CASES = _load()


def _operations(patch: list[dict[str, Any]]) -> tuple[Operation, ...]:
    if not patch:
        return ()  # nothing to do is no request
    text = json.dumps({"event": "document_change", "channel": "doc:x", "operations": patch})
    request = JsonCodec().decode_known(text.encode(), Unknown())
    assert isinstance(request, DocumentChangeRequest)
    return operations_of(request)


def test_the_whole_suite_is_here() -> None:
    assert sum(not case.values[0].get("disabled") for case in _CASES) == _ENABLED_LEN


@pytest.mark.parametrize("case", _CASES)
def test_strict_mode_conforms(case: dict[str, Any]) -> None:
    document = Document(clone(case["doc"]))
    if "error" in case:
        with pytest.raises(ArautoError):
            apply(document, _operations(case["patch"]), strict=True)
        assert equal(document.value, case["doc"])
    else:
        apply(document, _operations(case["patch"]), strict=True)
        assert equal(document.value, case.get("expected", case["doc"]))
