"""Reading the values of a large request step by step, so that nobody has to wait for it. Pure.

Whoever drives the steps lets others run between them. Small values are read in one go, and some of them in
one step; of large ones the parts are found first, counted, and then read one after another.
"""

from typing import Final

from arauto.codec.events import DocumentChangeRequest, Operation, UnreadOperations
from arauto.errors import ArautoError, Code
from arauto.limits import DOCUMENT_VALUES_MAX

__all__ = ["WHOLE_BYTES", "Steps", "check_values_count", "operations_of"]

#: A value of no more bytes is read in one go. It may hold a value in every two of them.
WHOLE_BYTES: Final = 1_024
_STEP_BYTES: Final = 4_096
#: What one more value weighs beside its bytes.
_VALUE_BYTES: Final = 16


class Steps:
    """Says when enough was read for one step."""

    __slots__ = ("_read_bytes",)

    def __init__(self) -> None:
        self._read_bytes = 0

    def is_due(self, size_bytes: int) -> bool:
        """Note a value of that size."""
        self._read_bytes += size_bytes + _VALUE_BYTES
        if self._read_bytes < _STEP_BYTES:
            return False
        self._read_bytes = 0
        return True


def operations_of(request: DocumentChangeRequest) -> tuple[Operation, ...]:
    """The operations of a change, read if they were not. Raises as a codec's `decode_request`."""
    operations = request.operations
    if not isinstance(operations, UnreadOperations):
        return operations
    steps = operations.read()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            read: tuple[Operation, ...] = end.value
            return read


def check_values_count(count: int, field: str) -> None:
    """Refuse a value that no document could hold, before it is built.

    Raises:
        ArautoError: DOCUMENT_TOO_LARGE.
    """
    if count > DOCUMENT_VALUES_MAX:
        rule = f"a document has at most {DOCUMENT_VALUES_MAX} values"
        raise ArautoError(Code.DOCUMENT_TOO_LARGE, rule, field=field)
