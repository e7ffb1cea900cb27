"""Who acts, through the console, the command line or the API: from where, and with which rights."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from scheduler.problems import Code, Problem
from sql.accounts.users import Rights, Role

#: The origin of a command line in the audit log.
CLI = "cli"


class Right(StrEnum):
    """The right that a command or a page of the console requires."""

    #: Nothing: no sign-in needed.
    ANYONE = "ANYONE"
    #: What is one's own; also of somebody who must choose a new password first.
    ACCOUNT = "ACCOUNT"
    #: To see: every role, its own apps.
    VIEW = "VIEW"
    #: To start, stop, trigger, kill and edit: operators with their own apps, administrators.
    OPERATE = "OPERATE"
    #: To change scripts: who operates and was given it.
    EDIT_GLUE = "EDIT_GLUE"
    #: Users, apps, the audit log, pausing: administrators.
    ADMINISTER = "ADMINISTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts, by default a command line: that may do everything.

    `app_ids` are the apps that exist for them, None = all; it goes into every query. `job_ids` are
    the only jobs that do, None = all of these apps.
    """

    who: str
    origin: str = CLI
    rights: Collection[Right] = frozenset(Right)
    app_ids: frozenset[int] | None = None
    job_ids: frozenset[int] | None = None

    @classmethod
    def of(cls, who: str, rights: Rights, *, origin: str, is_limited: bool = False) -> "Actor":
        """Return a user who acts; a limited one must choose a new password first."""
        return cls(
            who=who,
            origin=origin,
            rights=frozenset(
                {Right.ANYONE, Right.ACCOUNT} | (set() if is_limited else _of(rights))
            ),
            app_ids=None if rights.role is Role.ADMINISTRATOR else frozenset(rights.app_ids),
        )

    def may(self, right: Right | str) -> bool:
        """Return whether somebody has a right, which templates ask for by its name."""
        return right in self.rights

    def demand(self, right: Right) -> None:
        """Raise Problem unless somebody has a right."""
        if not self.may(right):
            raise Problem(Code.NO_RIGHT, who=self.who)

    def knows(self, app_id: int | None) -> bool:
        """Return whether an app exists for them; None = what belongs to no app."""
        return self.app_ids is None or app_id in self.app_ids

    def knows_job(self, app_id: int | None, job_id: int) -> bool:
        """Return whether a job of an app, or a run of it, exists for them."""
        return self.knows(app_id) and (self.job_ids is None or job_id in self.job_ids)


def _of(rights: Rights) -> set[Right]:
    if rights.role is Role.ADMINISTRATOR:
        return set(Right)
    if rights.role is Role.VIEWER:
        return {Right.VIEW}
    return {Right.VIEW, Right.OPERATE} | ({Right.EDIT_GLUE} if rights.may_edit_glue else set())
