"""What the HTTP front brings into the process, and what it leaves out."""

import subprocess
import sys

_PROGRAM = """
import logging, sys
from arauto.admin.app import _framework, describe
_framework(), describe()
unwanted = ("attr", "jinja2", "pydantic", "polyfactory", "sqlalchemy")
print([name for name in unwanted if name in sys.modules], logging.getLogger().handlers)
"""


def test_no_data_library_is_loaded_and_no_log_handler_is_set() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip(), done.stderr) == ("[] []", "")
