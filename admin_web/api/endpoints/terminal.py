"""What the command line asks an API that takes the place of its database.

The answers are what `warren` prints. They may change with each version; programs use the other
paths.
"""

from typing import Annotated, Any

import msgspec

from warren.admin_web.api.endpoint import Call, endpoint
from warren.admin_web.api.problem_answers import Refusal
from warren.admin_web.api.run_answers import idempotent
from warren.admin_web.services import ApiServices, CommandLine
from warren.resources.job_files import JOB_FILE_BYTES
from warren.resources.operation import KEY_HEADER, Scope

#: Bytes of a body at most: job files and values, and what JSON adds to them.
_BODY_BYTES = 2 * JOB_FILE_BYTES + 2_000_000


class ErrandBody(msgspec.Struct, kw_only=True):
    """The options of an errand, and the time zone of the times in them and in the output."""

    options: dict[str, Any] = {}
    timezone: Annotated[str, msgspec.Meta(max_length=64)] = ""


class ErrandOutput(msgspec.Struct, kw_only=True):
    """What the command prints, its exit status, what it needs to go on, and what was wrong."""

    parts: list[dict[str, Any]]
    status: int
    facts: dict[str, Any]
    errors: list[str]


class TerminalEndpoints:
    """The errands of command lines, by the scopes that they need."""

    name = "terminal"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint(
        "POST",
        "/terminal/read/<errand>",
        Scope.READ,
        ErrandOutput,
        body=ErrandBody,
        needs_whole_apps=True,
    )
    def read(self, call: Call, errand: str) -> Any:
        """Do an errand of the command line that only reads."""
        return self._done(call, errand, Scope.READ)

    @endpoint(
        "POST",
        "/terminal/trigger/<errand>",
        Scope.TRIGGER,
        ErrandOutput,
        body=ErrandBody,
        headers=KEY_HEADER,
        needs_whole_apps=True,
    )
    def trigger(self, call: Call, errand: str) -> Any:
        """Do an errand of the command line that triggers runs."""
        return self._done(call, errand, Scope.TRIGGER)

    @endpoint(
        "POST",
        "/terminal/operate/<errand>",
        Scope.OPERATE,
        ErrandOutput,
        body=ErrandBody,
        needs_whole_apps=True,
    )
    def operate(self, call: Call, errand: str) -> Any:
        """Do an errand of the command line such as stopping a job."""
        return self._done(call, errand, Scope.OPERATE)

    @endpoint(
        "POST",
        "/terminal/write/<errand>",
        Scope.WRITE,
        ErrandOutput,
        body=ErrandBody,
        body_bytes=_BODY_BYTES,
        is_heavy=True,
        needs_whole_apps=True,
    )
    def write(self, call: Call, errand: str) -> Any:
        """Do an errand of the command line about whole jobs, such as applying job files."""
        return self._done(call, errand, Scope.WRITE)

    @endpoint(
        "POST",
        "/terminal/admin/<errand>",
        Scope.ADMIN,
        ErrandOutput,
        body=ErrandBody,
        needs_whole_apps=True,
    )
    def admin(self, call: Call, errand: str) -> Any:
        """Do an errand of the command line that concerns everybody."""
        return self._done(call, errand, Scope.ADMIN)

    def _done(self, call: Call, errand: str, scope: Scope) -> Any:
        errands = self._services.errands
        if errands.scopes.get(errand) != scope:
            raise Refusal(404, f"unknown errand {errand[:100]!r}")
        body = call.body
        return errands.do(
            CommandLine(
                errand=errand,
                options=body.options,
                timezone=body.timezone,
                context=self._services.context(call.actor),
                may_write=call.may(Scope.WRITE),
                once=idempotent([body.options], call) if scope is Scope.TRIGGER else None,
            )
        )
