"""Acts as a user in tests: through commands, by id, or more briefly by name."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from warren.scheduler.actor import CLI, Actor, Right
from warren.scheduler.commands.cluster_commands import PauseOutcome
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.job_file_preview import Change
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.limits import LimitSpec
from warren.scheduler.names import Resolver
from warren.scheduler.retention.clearing import ClearingCriteria
from warren.sql.accounts.users import Rights, Role
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.registry.pauses import EVERY_APP


def acting(
    database: Database,
    now_ms: Callable[[], int] | None = None,
    *,
    who: str = "test",
    origin: str = CLI,
    app_ids: Collection[int] | None = None,
    rights: Collection[Right] = frozenset(Right),
    job_ids: Collection[int] | None = None,
    timezone: str = "UTC",
) -> Commands:
    """Return the commands of an actor; by default with the database's clock."""
    known = None if app_ids is None else frozenset(app_ids)
    return Commands(
        CommandContext(
            database=database,
            now_ms=now_ms or (lambda: database.read(database_now_ms)),
            actor=Actor(
                who=who,
                origin=origin,
                app_ids=known,
                rights=rights,
                job_ids=None if job_ids is None else frozenset(job_ids),
            ),
            timezone=timezone,
        )
    )


class NamedCommands:
    """Acts on jobs, runs and executors by their names."""

    def __init__(
        self, database: Database, now_ms: Callable[[], int] | None = None, **actor: Any
    ) -> None:
        self._commands = acting(database, now_ms, **actor)
        self._ids = Resolver(database)

    def apply(
        self,
        wanted_apps: Sequence[AppSpec],
        specs: Sequence[JobSpec],
        *,
        limits: Sequence[LimitSpec] = (),
        dry_run: bool = False,
        prune: bool = False,
    ) -> list[Change]:
        return self._commands.job_files.apply(
            wanted_apps, specs, limits=limits, dry_run=dry_run, prune=prune
        )

    def limit(self, name: str, **fields: int) -> None:
        self._commands.limits.apply(LimitSpec(name=name, **fields))

    def delete_limit(self, name: str) -> None:
        self._commands.limits.delete(name)

    def start(self, name: str) -> bool:
        return self._commands.jobs.start(self._ids.job(name))

    def stop(self, name: str) -> bool:
        return self._commands.jobs.stop(self._ids.job(name))

    def delete(self, name: str) -> None:
        self._commands.jobs.delete([self._ids.job(name)])

    def trigger(self, name: str, *, param: str | None, addresses: Sequence[str]) -> int:
        job_id = self._ids.job(name)
        return self._commands.runs.trigger(job_id, param=param, addresses=addresses)

    def kill(self, run_id: int) -> str:
        return self._commands.runs.kill(run_id)

    def clear_runs(self, criteria: ClearingCriteria, **options: Any) -> int:
        return self._commands.clearing.clear(criteria, **options)

    def drain(self, name: str) -> bool:
        return self._commands.cluster.drain(self._ids.executor(name))

    def pause(self, app: str | None = None, **how: Any) -> PauseOutcome:
        return self._commands.cluster.pause(self._ids.app(app) if app else EVERY_APP, **how)

    def resume(self, app: str | None = None) -> bool:
        return self._commands.cluster.resume(self._ids.app(app) if app else EVERY_APP)


class NamedUsers:
    """Acts on users by their names."""

    def __init__(self, database: Database, *, who: str) -> None:
        self._users = acting(database, who=who, origin="console" if who == "console" else CLI).users
        self._ids = Resolver(database)
        self.add_first = self._users.add_first

    def add(
        self,
        name: str,
        password: str | None,
        *,
        role: Role,
        must_change: bool = False,
        **rights: Any,
    ) -> None:
        self._users.add(name, password, self._rights(role, **rights), must_change=must_change)

    def set_password(self, name: str, password: str, *, must_change: bool = False) -> None:
        self._users.set_password(self._ids.user(name), password, must_change=must_change)

    def set_rights(self, name: str, *, role: Role, **rights: Any) -> None:
        self._users.set_rights(self._ids.user(name), self._rights(role, **rights))

    def disable(self, name: str) -> None:
        self._users.disable(self._ids.user(name))

    def enable(self, name: str) -> None:
        self._users.enable(self._ids.user(name))

    def delete(self, name: str) -> None:
        self._users.delete(self._ids.user(name))

    def _rights(
        self, role: Role, *, app_names: Sequence[str] = (), may_edit_glue: bool = False
    ) -> Rights:
        app_ids = tuple(self._ids.app(name) for name in app_names)
        return Rights(role=role, app_ids=app_ids, may_edit_glue=may_edit_glue)
