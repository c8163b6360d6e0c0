"""Who owns a channel. On one node the answer is always "here"; the cluster brings another answer."""

from typing import Protocol

__all__ = ["HERE", "Local", "Ownership"]

HERE = ""


class Ownership(Protocol):
    """Maps (hub, channel) to the responsible node. Pure and immediate; may change between calls, and
    whoever caches an answer compares `generation`.
    """

    generation: int

    def owner_of(self, hub: str, channel: str) -> str:
        """`HERE`, or the name of another node."""


class Local:
    """The single node's ownership."""

    __slots__ = ("generation",)

    def __init__(self) -> None:
        self.generation = 0

    def owner_of(self, hub: str, channel: str) -> str:
        return HERE
