"""Limits that jobs share: how many of their runs may be going at once, and how often they start."""

import msgspec

from warren.resources.operation import Scope, operation


class LimitHolder(msgspec.Struct, kw_only=True, frozen=True):
    """A run that holds a limit; of apps that the reader may not see, only how much it holds."""

    run: int | None
    app: str | None
    job: str | None
    status: str | None
    weight: int


class LimitedJob(msgspec.Struct, kw_only=True, frozen=True):
    """A job that takes a limit: how much each run takes, and how many of its runs wait."""

    app: str
    job: str
    weight: int
    waiting: int
    id: int = 0  # older APIs do not say it


class Limit(msgspec.Struct, kw_only=True, frozen=True):
    """A limit; `held` is how much of it runs hold, `left` how much its rate allows now.

    `per` is a duration such as `1m`. `held_by` and `jobs` name those of apps that the reader may
    see; `other_jobs` counts the other jobs.
    """

    name: str
    at_once: int | None
    rate: int | None
    per: str | None
    held: int
    left: int | None
    held_by: list[LimitHolder]
    jobs: list[LimitedJob]
    other_jobs: int

    @property
    def allows(self) -> str:
        """What it allows, such as `3 at once, 60 per 1m`."""
        at_once = [] if self.at_once is None else [f"{self.at_once} at once"]
        rate = [] if self.rate is None else [f"{self.rate} per {self.per}"]
        return ", ".join(at_once + rate)


class SetLimit(Limit, kw_only=True, frozen=True):
    """A limit as it is now; `action` is create, update or unchanged."""

    action: str = "update"  # older APIs do not say it


class LimitBody(msgspec.Struct, kw_only=True):
    """A limit in a request; `per` is a duration such as `1m`. `name` must be that of the path."""

    name: str | None = None
    at_once: int | None = None
    rate: int | None = None
    per: str | int | None = None


@operation("GET", "/limits", Scope.READ)
def list_limits() -> list[Limit]:
    """List limits by name, with the runs that hold them."""


@operation("GET", "/limits/<limit>", Scope.READ)
def show_limit(name: str) -> Limit:
    """Show a limit, the runs that hold it, and the jobs that use it."""


@operation("PUT", "/limits/<limit>", Scope.ADMIN, body=LimitBody, other_answers={201: "created"})
def set_limit(
    name: str, *, at_once: int | None = None, rate: int | None = None, per: str | None = None
) -> SetLimit:
    """Create a limit, or change it to exactly this.

    Runs that hold more than a lowered limit allows go on; no other starts until they have ended.
    """


@operation("DELETE", "/limits/<limit>", Scope.ADMIN)
def delete_limit(name: str) -> None:
    """Delete a limit that no job names and no run holds."""
