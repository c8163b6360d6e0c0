"""Why a benchmark could not be run.

Not an `ArautoError`: those carry numbers that are part of the protocol, and nobody is answered here.
"""

__all__ = ["BenchError"]


class BenchError(Exception):
    """A measurement could not be made; the text says why, for a person."""
