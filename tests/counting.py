"""What is freed by counting references alone, without the help of the garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["alive", "counting_only"]

T = TypeVar("T")


@contextmanager
def counting_only() -> Iterator[None]:
    """No collection within; afterwards nothing of Arauto's may be left for one."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = sorted({type(each).__name__ for each in gc.garbage if _is_ours(each)})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not found, f"only the collector would have freed these: {found}"


def _is_ours(each: object) -> bool:
    return type(each).__module__.startswith("arauto.")


def alive(kind: type[T]) -> list[T]:
    """All objects of a kind that there are.

    By their type: isinstance() would ask each object for its class, and a weak proxy of something
    that is gone answers with a ReferenceError.
    """
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]
