"""The page of a broadcast: all shards of one due time, their logs as one, and killing them all."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from flask import flash, redirect, render_template, url_for
from flask_babel import gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.sql.listings import recent, run_relations
from warren.sql.run_status import FAILURES, OPEN, RunStatus
from warren.sql.runs.run_rows import DetailedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The newest attempt of a shard, and the attempts before it."""

    run: DetailedRun
    earlier: Sequence[DetailedRun]

    @property
    def is_open(self) -> bool:
        """Whether it may still run, and write into its log."""
        return self.run.status in OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """All shards of a due time; `is_cut`: there are more than are read."""

    shards: Sequence[Shard]
    is_cut: bool

    @property
    def first(self) -> DetailedRun:
        """The first shard."""
        return self.shards[0].run

    @property
    def states(self) -> list[tuple[RunStatus, int]]:
        """How many shards are in each state, the most first."""
        return Counter(RunStatus(shard.run.status) for shard in self.shards).most_common()

    @property
    def open_count(self) -> int:
        """How many shards are not over."""
        return sum(shard.is_open for shard in self.shards)

    @property
    def failed(self) -> list[int]:
        """The runs of shards that failed."""
        return [shard.run.id for shard in self.shards if shard.run.status in FAILURES]

    @property
    def began_at(self) -> int | None:
        """When the first shard started."""
        return min((at for shard in self.shards if (at := shard.run.started_at)), default=None)

    @property
    def ended_at(self) -> int | None:
        """When the last shard ended; None before that."""
        ends = [shard.run.finished_at for shard in self.shards]
        return None if self.open_count else max((at for at in ends if at), default=None)


class BroadcastPages:
    """Broadcasts of the visitor's apps."""

    name = "broadcasts"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/runs/<id:run_id>/shards", Right.VIEW)
    def show(self, run_id: int) -> Response | str:
        """Show all shards of a run's due time; a run that is no shard has a page of its own."""
        known = visitor()
        broadcast = self._services.database.read(lambda session: _read(session, known, run_id))
        if broadcast.first.shard_total == 1:
            return redirect(url_for("runs.show", run_id=run_id), 303)
        return render_template(
            "pages/broadcast.html",
            broadcast=broadcast,
            run=broadcast.first,
            now_ms=self._services.now_ms(),
        )

    @route("/runs/<id:run_id>/shards/kill", Right.OPERATE, methods=("POST",))
    def kill(self, run_id: int) -> Response:
        """Kill every shard that is not over, also those that the page does not show."""
        known = visitor()

        def read(session: Session) -> list[int]:
            run = recent.run(session, run_id, known.app_ids)
            return run_relations.open_of_tick(session, run)

        run_ids = self._services.database.read(read)
        for _ in self._services.commands(known.actor).bulk_runs.kill(run_ids):
            pass
        if run_ids:
            flash(gettext("Kill requested. Shards: %(n)s.", n=len(run_ids)))
        else:
            flash(gettext("All shards have already ended."), "error")
        return redirect(url_for("broadcasts.show", run_id=run_id), 303)


def _read(session: Session, known: Visitor, run_id: int) -> Broadcast:
    run = recent.run(session, run_id, known.app_ids)
    attempts = run_relations.of_tick(session, run, known.app_ids)
    by_shard: dict[int, list[DetailedRun]] = {}
    for attempt in attempts or [run]:
        by_shard.setdefault(attempt.shard_index, []).append(attempt)
    return Broadcast(
        shards=[Shard(run=runs[-1], earlier=runs[:-1]) for runs in by_shard.values()],
        is_cut=len(attempts) >= run_relations.MAX_TICK_RUNS,
    )
