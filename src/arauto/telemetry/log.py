"""Sets up logging: structured lines from our own code and from libraries, through one handler.

Modules log with `structlog.get_logger("arauto.<part>")`: a short event and its details as keyword
arguments, never formatted into the text. Everything, the libraries' lines too, passes the `Redactor` on
the way out, so what it holds back cannot reach the output by another way.
"""

import logging
import sys
from collections.abc import Iterable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec
import structlog

from arauto.telemetry.redaction import Redactor

__all__ = ["configure_logging"]

#: Libraries whose debug lines hold payloads, SQL parameters or URLs: warnings and worse only.
_QUIET = (
    "alembic",
    "asyncpg",
    "httpcore",
    "httpx",
    "litestar",
    "opentelemetry",
    "picows",
    "redis",
    "sqlalchemy",
    "urllib3",
    "uvicorn.access",
)
#: Libraries that bring handlers of their own, which would print past ours.
_OWN_HANDLERS = ("litestar", "picows", "uvicorn", "uvicorn.access", "uvicorn.asgi", "uvicorn.error")

# One list for good: loggers that were used once keep it, and tests that capture log lines change it
# in place.
_PROCESSORS: list[Any] = [
    structlog.stdlib.filter_by_level,
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
]


def configure_logging(
    *,
    level: Literal["debug", "info", "warning", "error"] = "info",
    format: Literal["json", "console"] = "json",
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> Redactor:
    """Send all log lines of the process to one stream. Calling it again replaces the earlier set-up.

    Args:
        level: the least important lines of our own code that are written.
        format: `json` for machines, `console` for people.
        secrets: values that must never appear, such as those of the configuration.
        stream: where to; standard error if None.

    Returns:
        The redactor in use, to which secrets made later can be added.
    """
    target = stream or sys.stderr
    redactor = Redactor(secrets)
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.processors.StackInfoRenderer(),
                structlog.processors.format_exc_info,
                redactor,
                _describe_record,  # adds nothing that came from outside
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _to_json if format == "json" else _console(target),
            ]
        )
    )
    number = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    for name in _OWN_HANDLERS:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    structlog.configure(
        processors=_PROCESSORS,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return redactor


def _describe_record(
    logger: object, method: str, event_dict: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    record: logging.LogRecord = event_dict["_record"]
    at = datetime.fromtimestamp(record.created, UTC)
    return {
        "ts": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        **event_dict,
    }


def _to_json(logger: object, method: str, event_dict: MutableMapping[str, Any]) -> str:
    return msgspec.json.encode(event_dict, enc_hook=repr).decode()


def _console(target: TextIO) -> structlog.dev.ConsoleRenderer:
    # Not rich's tracebacks: they print local variables, which is where the secrets are.
    return structlog.dev.ConsoleRenderer(
        colors=target.isatty(),
        timestamp_key="ts",
        exception_formatter=structlog.dev.plain_traceback,
    )
