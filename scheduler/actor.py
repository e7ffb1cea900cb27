"""The user or token that acts, through console, command line or API, and its rights."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from warren.scheduler.problems import Code, Problem
from warren.sql.accounts.users import Rights, Role

#: The origin of commands from the command line, in the audit log.
CLI = "cli"
#: The most characters of an actor's name, which are as many as its columns hold.
MAX_NAME_LENGTH = 64


class Right(StrEnum):
    """The right that a command or a page of the console requires."""

    #: No sign-in needed.
    ANYONE = "ANYONE"
    #: The user's own account; users who must first choose a new password have only this.
    ACCOUNT = "ACCOUNT"
    #: See one's apps: every role.
    VIEW = "VIEW"
    #: Start, stop, trigger, kill, edit, pause apps: operators for theirs, and administrators.
    OPERATE = "OPERATE"
    #: Change scripts: operators who were given this right, and administrators.
    EDIT_GLUE = "EDIT_GLUE"
    #: Users, apps, the audit log, pausing everything: administrators.
    ADMINISTER = "ADMINISTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts; by default the command line, with all rights.

    `who` has at most MAX_NAME_LENGTH characters; the names of users and tokens are shorter.
    `app_ids` are the apps that exist for the actor, None = all; every query filters by them.
    `job_ids` are the only jobs that exist for it, None = all of these apps.
    """

    who: str
    origin: str = CLI
    rights: Collection[Right] = frozenset(Right)
    app_ids: frozenset[int] | None = None
    job_ids: frozenset[int] | None = None

    @classmethod
    def of(cls, who: str, rights: Rights, *, origin: str, is_limited: bool = False) -> "Actor":
        """Return the actor for a user; a limited one must first choose a new password."""
        return cls(
            who=who,
            origin=origin,
            rights=frozenset(
                {Right.ANYONE, Right.ACCOUNT} | (set() if is_limited else _of(rights))
            ),
            app_ids=None if rights.role is Role.ADMINISTRATOR else frozenset(rights.app_ids),
        )

    def may(self, right: Right | str) -> bool:
        """Return whether the actor has a right; templates pass its name."""
        return right in self.rights

    def demand(self, right: Right) -> None:
        """Raise Problem unless the actor has a right."""
        if not self.may(right):
            raise Problem(Code.NO_RIGHT, who=self.who)

    def knows(self, app_id: int | None) -> bool:
        """Return whether an app exists for the actor; None = something that belongs to no app."""
        return self.app_ids is None or app_id in self.app_ids

    def knows_job(self, app_id: int | None, job_id: int) -> bool:
        """Return whether a job of an app, or a run of it, exists for the actor."""
        return self.knows(app_id) and (self.job_ids is None or job_id in self.job_ids)


def _of(rights: Rights) -> set[Right]:
    if rights.role is Role.ADMINISTRATOR:
        return set(Right)
    if rights.role is Role.VIEWER:
        return {Right.VIEW}
    return {Right.VIEW, Right.OPERATE} | ({Right.EDIT_GLUE} if rights.may_edit_glue else set())
