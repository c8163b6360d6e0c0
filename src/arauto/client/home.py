"""The event loop a client lives on. Whatever it waits for is woken there, and nowhere else."""

import asyncio

from arauto.errors import ArautoError, Code

__all__ = ["Home"]


class Home:
    """The loop that runs when this is made."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    @property
    def is_gone(self) -> bool:
        """Whether the loop has ended, and all that ran on it."""
        return self._loop.is_closed()

    def check(self) -> None:
        """Refuse what would wait for ever.

        Raises:
            ArautoError: CONFLICT, this is another loop, or none.
        """
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if not is_here:
            raise ArautoError(
                Code.CONFLICT,
                "this client lives on the event loop it connected on; make one for each loop, or use "
                "arauto.client.blocking from threads",
            )
