"""The consoles of the commands: plain about colours, and without opinions on what a closed pipe means.

Strings are shown as they are. What is shown comes from elsewhere (names of channels and files, messages of
errors), and `[x]` in it is no style, nor `:tea:` a picture of a cup.
"""

import os
import sys

from rich.console import Console

__all__ = ["Output", "errors", "forget_output", "leave_ctrl_c"]


class Output(Console):
    """Standard output. Where its reader has left, BrokenPipeError says so, as it does without rich."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def forget_output() -> None:
    """Whoever read our output has seen enough, and what is still buffered has nowhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def leave_ctrl_c() -> None:
    """Start a new line after the `^C` that terminals show, so that what follows stands by itself."""
    if sys.stderr.isatty():
        sys.stderr.write("\n")


def errors() -> Console:
    """Standard error: what is said beside the output proper."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
