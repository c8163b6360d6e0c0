"""`arauto default-config`: print a configuration file with every default explained."""

import sys

from arauto.config.document import default_yaml

__all__ = ["default_config"]


def default_config() -> None:
    """Print a configuration file with every default and what it means."""
    # Plain text whatever the terminal is: the output is meant to be redirected into a file.
    sys.stdout.write(default_yaml())
