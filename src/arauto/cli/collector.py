"""The garbage collector of a process that serves: rarely, and never over what is there to stay."""

import gc

__all__ = ["tune_collector"]

#: New container objects between two young collections. A message makes some; at the default of 700 a busy
#: node spends a third of its time looking through what it still needs.
_YOUNG = 50_000


def tune_collector() -> None:
    """Call once, when everything that lives as long as the process has been made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 50)
