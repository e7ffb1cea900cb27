"""Views of runs and tokens, and the conversion of any view to JSON.

Secrets are left out: a token's text and hash.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple, Protocol

import msgspec

from warren.broker.messages.values import Progress, result_value
from warren.sql.accounts import tokens
from warren.sql.accounts.tokens import ListedToken
from warren.sql.instants import iso
from warren.sql.run_status import RunStatus
from warren.sql.runs.run_rows import DetailedRun


class TokenView(NamedTuple):
    """A token; `apps` and `jobs` None = all that its owner may see.

    `state` is good, expired, revoked, or disabled like its owner.
    """

    name: str
    owner: str
    state: str
    scopes: tuple[str, ...]
    apps: tuple[str, ...] | None
    jobs: tuple[str, ...] | None
    created_at: int
    created_by: str
    expires_at: int
    used_at: int | None
    used_from: str
    revoked_at: int | None
    revoked_by: str


def token_view(
    listed: ListedToken, *, now_ms: int, apps: Mapping[int, str], jobs: Mapping[int, str]
) -> TokenView:
    """Return the view of a token; `apps` and `jobs` are names by id."""
    token, owner = listed
    return TokenView(
        name=token.name,
        owner=owner.name if owner else "",
        state=_state(listed, now_ms),
        scopes=tuple(token.scopes.split(",")),
        apps=_names(token.permission, apps),
        jobs=_names(token.jobs, jobs),
        created_at=token.created_at,
        created_by=token.created_by,
        expires_at=token.expires_at,
        used_at=token.used_at,
        used_from=token.used_from or "",
        revoked_at=token.revoked_at,
        revoked_by=token.revoked_by or "",
    )


def _state(listed: ListedToken, now_ms: int) -> str:
    token, owner = listed
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at <= now_ms:
        return "expired"
    return "good" if owner is not None and not owner.is_disabled else "disabled"


def _names(ids: str | None, names: Mapping[int, str]) -> tuple[str, ...] | None:
    listed = tokens.ids_of(ids)
    return None if listed is None else tuple(names.get(name, f"#{name}") for name in sorted(listed))


def to_json(view: NamedTuple, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return a view, or a row, as a JSON object with its fields in order.

    Fields named `…_at` hold epoch milliseconds and become ISO 8601 in UTC, or null. Dates
    are YYYY-MM-DD. Tuples become
    lists; a StrEnum stays a string.
    """
    return {
        name: plain(name, value) for name, value in view._asdict().items() if name not in without
    }


def plain(name: str, value: Any) -> Any:
    """Return the JSON value of a field."""
    if name.endswith("_at"):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


#: Columns that JSON leaves out, or has in another form.
PAGES_ONLY = frozenset(
    {
        "message_why",
        "trigger_why",
        "log_tail",
        "result",
        "progress",
        "boot_id",
        "retries_left",
        "wanted_addresses",
        "timezone",
        "route",
        "limits",
        "scope",
    }
)


def run_json(run: DetailedRun, waits_for: Sequence[str] = ()) -> dict[str, Any]:
    """Return a run as a JSON object; a deleted job's run has no `job`.

    `waits_for` are the full limits that it waits for.
    """
    values = {"result": result_value(run.result), "progress": result_value(run.progress)}
    return to_json(run, without=PAGES_ONLY) | values | {"waits_for": [*waits_for]}


class Running(Protocol):
    """A run, with what says how far it is."""

    @property
    def status(self) -> str: ...
    @property
    def progress(self) -> str | None: ...
    @property
    def started_at(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Per cent, what is `done` of a `total`, and the time left; None if that is not known."""

    percent: int | None
    done: str
    total: str
    left_ms: int | None
    text: str

    def __str__(self) -> str:
        """Return it as a line: `3 of 10 (30 %), loading`."""
        share = "" if self.percent is None else f" ({self.percent} %)"
        whole = f" of {self.total}" if self.total else ""
        return f"{self.done}{whole}{share}{', ' if self.text else ''}{self.text}"


def run_progress(run: Running, now_ms: int) -> RunProgress | None:
    """Return how far a run is; None if it is not running, or has not said.

    The time left assumes that it continues at the pace so far.
    """
    if run.status != RunStatus.RUNNING or not run.progress:
        return None
    try:
        progress = msgspec.json.decode(run.progress, type=Progress)
    except msgspec.MsgspecError:  # the row was changed by hand
        return None
    share = min(progress.done / progress.total, 1.0) if progress.total else None
    ran_ms = now_ms - run.started_at if run.started_at else 0
    return RunProgress(
        percent=None if share is None else int(100 * share),
        done=f"{progress.done:,.10g}",
        total=f"{progress.total:,.10g}" if progress.total else "",
        left_ms=int(ran_ms / share) - ran_ms if share and ran_ms > 0 else None,
        text=progress.text,
    )
