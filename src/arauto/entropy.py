"""Randomness enters Arauto here and nowhere else."""

import random
import secrets
from typing import Protocol

__all__ = ["Entropy", "SeededEntropy", "SystemEntropy"]


class Entropy(Protocol):
    """Unguessable tokens and ordinary random numbers."""

    def token(self, size_bytes: int = 16) -> str:
        """An unguessable URL-safe string holding `size_bytes` of randomness."""

    def bits(self, count: int) -> int: ...

    def uniform(self, low: float, high: float) -> float: ...


class SystemEntropy:
    """The operating system's generator."""

    __slots__ = ()

    def token(self, size_bytes: int = 16) -> str:
        return secrets.token_urlsafe(size_bytes)

    def bits(self, count: int) -> int:
        return secrets.randbits(count)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)  # noqa: S311 - spreads timers, guards nothing


class SeededEntropy:
    """Repeatable; for tests and simulation only."""

    __slots__ = ("_random",)

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def token(self, size_bytes: int = 16) -> str:
        return self._random.randbytes(size_bytes).hex()

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
