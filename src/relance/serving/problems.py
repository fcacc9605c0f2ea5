"""What went wrong with a request, in one shape: a status, a code for programs, a sentence and a remedy for people."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from relance.domain.encoding import EncodingError
from relance.ports.backends import BackendRefusedError, BackendUnavailableError
from relance.ports.histories import ConflictError, HistoryError, StorageUnusableError
from relance.recovery.commands import CommandRefusedError
from relance.recovery.subjects import AmbiguousError, NotKnownError

_NOTHING_NEW = "nothing new begins until the database answers, and what has begun is finished"
"""What it means for jobs that the database is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A request that did not succeed."""

    status: HTTPStatus
    code: str
    message: str
    remedy: str = ""


class ProblemError(Exception):
    """Carries a problem to the one place that answers with it."""

    def __init__(self, problem: Problem) -> None:
        """Take the problem."""
        super().__init__(problem.message)
        self.problem = problem


NOT_LOGGED_IN = Problem(
    status=HTTPStatus.UNAUTHORIZED,
    code="not_logged_in",
    message="this needs a token",
    remedy="send `Authorization: Bearer TOKEN`; the first start wrote an admin token to the state folder",
)
NOT_ALLOWED = Problem(
    status=HTTPStatus.FORBIDDEN,
    code="not_allowed",
    message="your role does not allow this",
    remedy="ask an admin for a token with another role (relance token add)",
)
FOREIGN_HOST = Problem(
    status=HTTPStatus.MISDIRECTED_REQUEST,
    code="foreign_host",
    message="this server does not answer under that host name",
    remedy="add the name to server.allowed_hosts, or use the name the server was started with",
)
FOREIGN_ORIGIN = Problem(
    status=HTTPStatus.FORBIDDEN,
    code="foreign_origin",
    message="the request comes from another site, or a form that is too old",
    remedy="load the page again and repeat",
)
TOO_LARGE = Problem(
    status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    code="too_large",
    message="the request is larger than the server takes",
)
TOO_MANY_STREAMS = Problem(
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    code="too_many_streams",
    message="too many event streams are open",
    remedy="close some, or ask again later; pages work without",
)

KNOWN_ERRORS: dict[type[Exception], tuple[HTTPStatus, str, str]] = {
    NotKnownError: (HTTPStatus.NOT_FOUND, "not_known", "list what is known (relance jobs, relance incidents)"),
    AmbiguousError: (HTTPStatus.CONFLICT, "ambiguous", "say which one by its key"),
    CommandRefusedError: (HTTPStatus.CONFLICT, "refused", ""),
    BackendRefusedError: (HTTPStatus.UNPROCESSABLE_ENTITY, "refused", ""),
    BackendUnavailableError: (HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "try again"),
    EncodingError: (HTTPStatus.BAD_REQUEST, "bad_input", "see the API's description (/api/v1/openapi.json)"),
    ConflictError: (HTTPStatus.CONFLICT, "conflict", "look again and repeat"),
    StorageUnusableError: (HTTPStatus.SERVICE_UNAVAILABLE, "storage_unusable", _NOTHING_NEW),
    HistoryError: (HTTPStatus.SERVICE_UNAVAILABLE, "storage", f"try again: {_NOTHING_NEW}"),
}
"""What each known error means to the one who asked; a subclass before its base."""


def problem_of(error: Exception) -> Problem:
    """The problem behind an error. An unknown error keeps its text to itself: it may hold what is not to be seen."""
    if isinstance(error, ProblemError):
        return error.problem
    for kind, (status, code, remedy) in KNOWN_ERRORS.items():
        if isinstance(error, kind):
            return Problem(status=status, code=code, message=str(error), remedy=remedy)
    return Problem(
        status=HTTPStatus.INTERNAL_SERVER_ERROR,
        code="internal",
        message="the server failed at this",
        remedy="the server's log says how",
    )


def problem_of_status(status_code: int, detail: str) -> Problem:
    """The problem behind a plain HTTP status, such as an address that does not exist."""
    status = HTTPStatus(status_code)
    codes = {HTTPStatus.NOT_FOUND: "no_such_address", HTTPStatus.METHOD_NOT_ALLOWED: "wrong_method"}
    return Problem(status=status, code=codes.get(status, status.name.lower()), message=detail or status.phrase)
