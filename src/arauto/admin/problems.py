"""Errors as HTTP answers: which status a code gets, and the body that goes with it."""

import msgspec

from arauto.admin.records import Problem
from arauto.errors import ArautoError, Code

__all__ = ["STATUSES", "problem_of", "response_of", "status_of"]

#: Statuses the API answers errors with, and what they mean there.
STATUSES = {
    400: "The request breaks a rule; `field` names the part.",
    401: "The admin token is missing or wrong.",
    403: "The request comes from a web page of another address, or names another host.",
    404: "There is no such thing.",
    405: "That cannot be done with this thing.",
    409: "The request contradicts the current state.",
    413: "The request, or a part of it, is too large.",
    429: "A quota of the hub is used up for now.",
    503: "The store cannot be used, or the node is shutting down.",
}

_STATUS = {
    Code.ADMIN_DENIED: 401,
    Code.ORIGIN_DENIED: 403,
    Code.UNKNOWN_HUB: 404,
    Code.NOT_FOUND: 404,
    Code.UNKNOWN_RULES: 409,
    Code.CONFLICT: 409,
    Code.FEATURE_OFF: 409,
    Code.WRONG_CHANNEL_TYPE: 409,
    Code.MESSAGE_TOO_LARGE: 413,
    Code.BATCH_TOO_LARGE: 413,
    Code.TOO_MANY_CHANNELS: 429,
    Code.TOO_MANY_PENDING: 429,
    Code.HUB_RATE_LIMITED: 429,
}


def status_of(error: ArautoError) -> int:
    """The HTTP status of an error."""
    if error.retryable or 6000 <= error.code < 7000:
        return _STATUS.get(error.code, 503)
    return _STATUS.get(error.code, 400)


def problem_of(error: ArautoError) -> Problem:
    return Problem(code=int(error.code), message=error.message, field=error.field)


def response_of(error: ArautoError) -> bytes:
    """The body of an error's answer."""
    return msgspec.json.encode(problem_of(error))
