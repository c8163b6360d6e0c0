"""A deadline for tests on uvloop, where pytest-timeout's signal is not heard while the loop runs."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import pytest

__all__ = ["within"]

P = ParamSpec("P")
T = TypeVar("T")


def within(seconds: float) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Cancel the test where it stands once it has taken this long."""

    def decorate(test: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @pytest.mark.timeout(seconds + 60)
        @functools.wraps(test)
        async def limited(*args: P.args, **named: P.kwargs) -> T:
            async with asyncio.timeout(seconds):
                return await test(*args, **named)

        return limited

    return decorate
