"""The HTTP status of what a command refuses, for pages and the API alike."""

from warren.scheduler.problems import ProblemKind

HTTP_STATUS = {
    ProblemKind.INVALID: 422,
    ProblemKind.UNKNOWN: 404,
    ProblemKind.CONFLICT: 409,
    ProblemKind.FORBIDDEN: 403,
}
