"""How plain HTTP answers what is refused: a status, and the error's number in a JSON body."""

import msgspec
import structlog

from arauto.errors import ArautoError, Code
from arauto.session.callers import TooFastError

__all__ = ["Answer", "answer_to", "told"]

#: Status, headers and body.
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]

_log = structlog.get_logger("arauto.gateways")

_STATUS = {
    Code.ORIGIN_DENIED: 403,
    Code.AUTH_FAILED: 401,
    Code.TOKEN_INVALID: 401,
    Code.TOKEN_EXPIRED: 401,
    Code.UNAUTHENTICATED: 401,
    Code.CALL_DENIED: 403,
    Code.SUBSCRIBE_DENIED: 403,
    Code.PUBLISH_DENIED: 403,
    Code.ANONYMOUS_DENIED: 403,
    Code.UNKNOWN_HUB: 404,
    Code.NOT_FOUND: 404,
    Code.CONFLICT: 409,
    Code.RATE_LIMITED: 429,
    Code.TOO_MANY_HUBS: 429,
    Code.MESSAGE_TOO_LARGE: 413,
    Code.BATCH_TOO_LARGE: 413,
    Code.SERVER_ERROR: 500,
}


def told(error: Exception) -> ArautoError:
    """What the client is told of an error. Whatever is none of ours is our mistake, and goes to the log."""
    if isinstance(error, ArautoError):
        return error
    _log.exception("a request failed", exc_info=error)
    return ArautoError(Code.SERVER_ERROR, "the node failed to carry out the request")


def answer_to(error: ArautoError) -> Answer:
    """The answer that refuses a request."""
    headers = [(b"content-type", b"application/json")]
    if isinstance(error, TooFastError):
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    status = _STATUS.get(error.code, 503 if error.retryable else 400)
    problem = {"code": int(error.code), "message": error.told, "field": error.field}
    return status, headers, msgspec.json.encode(problem)
