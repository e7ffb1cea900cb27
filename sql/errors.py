"""The errors of this package.

SqlError
├── DatabaseUnavailable   it does not answer, refuses us, or keeps failing
├── SchemaMismatch        another schema version, or a missing index
├── SecretMismatch        the cluster's other processes have another master secret
├── LookupFailed          a row was not found; it has a code and facts
│   ├── NotFound          no such job, run, app, executor, user or token
│   └── Ambiguous         several rows have the name
├── RunIdTaken            an id that the counter gave out belongs to another row
└── RunsNotPlanned        a run that somebody asked for has the key of another run
"""

from enum import Enum, auto


class SqlError(Exception):
    """Root of the package's errors."""


class DatabaseUnavailable(SqlError):
    """The database does not answer, refuses us, or keeps failing."""


class SchemaMismatch(SqlError):
    """The database has another schema version, or an index is missing."""


class SecretMismatch(SqlError):
    """The cluster's other processes have another master secret."""


class LookupFailure(Enum):
    """Why a row was not found; `Code` in `scheduler/problems.py` has the sentence."""

    NO_JOB = auto()
    NO_JOB_NAMED = auto()
    NO_JOB_IN_APP = auto()
    SEVERAL_JOBS_NAMED = auto()
    NO_RUN = auto()
    NO_BACKFILL = auto()
    NO_SCRIPT = auto()
    NO_SCRIPT_VERSION = auto()
    NO_APP = auto()
    NO_APP_NAMED = auto()
    NO_EXECUTOR_AT = auto()
    SEVERAL_EXECUTORS_AT = auto()
    NO_USER = auto()
    NO_USER_NAMED = auto()
    NO_TOKEN_NAMED = auto()


class LookupFailed(SqlError):
    """A row was not found.

    Args:
        code: why.
        facts: values for the placeholders of the code's sentence.

    """

    def __init__(self, code: LookupFailure, **facts: object) -> None:
        self.code = code
        self.facts = facts
        super().__init__(
            " ".join([code.name, *(f"{name}={fact!r}" for name, fact in facts.items())])
        )


class NotFound(LookupFailed):
    """There is no such job, run, app, executor, user or token."""


class Ambiguous(LookupFailed):
    """Several rows have the name."""


class RunIdTaken(SqlError):
    """The counter of run ids reused an id.

    Args:
        text: what was found.
        run_id: such an id; 0 = it is not known which.

    """

    def __init__(self, text: str, run_id: int = 0) -> None:
        self.run_id = run_id
        super().__init__(text)


class RunsNotPlanned(SqlError):
    """Other runs have the keys of requested runs.

    Args:
        count: how many were not planned.

    """

    def __init__(self, count: int) -> None:
        super().__init__(f"cannot plan runs, {count} in all: other runs have their keys")
