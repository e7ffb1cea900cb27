"""One scheduler: starts and stops the threads of its roles.

Stopping lets each role finish its round, then records what the broker has confirmed, then leaves
the registry, so that others take over what was routed but not confirmed.
"""

import time
from collections.abc import Callable

import structlog

from warren.scheduler import pending_work
from warren.scheduler.dispatch.peeks import SWEEP_MS
from warren.scheduler.dispatch.planner import BEGIN_MS
from warren.scheduler.roles import Roles
from warren.scheduler.rounds import NAP_SECONDS
from warren.scheduler.watch import heartbeat
from warren.scheduler.watch.heartbeat import HeartbeatCaller
from warren.sql.clock import SAMPLE_SECONDS

#: How long all stopping roles together may take to finish their rounds.
ROUND_SECONDS = 8.0
#: Wait of the roles that settle runs of lost or silent executors; they are never urgent.
SETTLE_SECONDS = 1.0

log = structlog.get_logger()


class SchedulerNode:
    """A scheduler; any number of them can share one database and broker.

    `roles` belong to it and are closed when it stops.
    """

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.name = roles.name
        self._loops = roles.loops
        self._alarm_loops = roles.alarm_roles.loops
        self._add_loops()

    def start(self) -> None:
        """Start all roles.

        Raises:
            DatabaseUnavailable: the database does not answer; nothing was started.

        """
        try:
            self.roles.presence.load()
        except Exception:
            self.roles.close()
            raise
        self._loops.start()
        self._alarm_loops.start()
        log.info("scheduler_started", node=self.name)

    def stop(self) -> None:
        """Finish the current rounds, record the last confirms, and leave the registry."""
        give_up_at = time.monotonic() + ROUND_SECONDS
        self._loops.stop()
        self._alarm_loops.stop()
        busy = [*self._loops.join(ROUND_SECONDS)]
        self._leave()
        # If an alarm role is still sending, another scheduler sends again when its claim expires.
        busy += self._alarm_loops.join(max(0.0, give_up_at - time.monotonic()))
        for name in busy:
            log.warning("role_did_not_end", role=name)
        self.roles.close()
        log.info("scheduler_stopped", node=self.name, **self.roles.counters.all())

    def _leave(self) -> None:
        """Record the last confirms and leave the registry, if possible; neither is essential."""
        if "self health" in self._loops.failing:
            return  # the database is unavailable, and others notice our silence after 1.5 s
        try:
            if self._confirming.join(0):
                self.roles.confirmations.drain()
            self.roles.leave()
        except Exception as error:  # noqa: BLE001 - others send again what is not recorded
            log.warning("scheduler_left_untidy", error=str(error))

    def _is_cluster_alive(self) -> bool:
        """Whether this scheduler watches, and the roles without which nothing runs advance."""
        advance = self._loops.all_advance(heartbeat.ROLES, heartbeat.FRESH_SECONDS)
        return advance and self.roles.watcher.holds_lease

    def _add_loops(self) -> None:
        roles, loops = self.roles, self._loops
        loops.add("clock", lambda _now: roles.clock.run_round(), longest_seconds=SAMPLE_SECONDS)
        loops.add("self health", roles.self_health.run_round)
        loops.add("registrar", roles.registrar.run_round, longest_seconds=NAP_SECONDS)
        loops.add("presence", roles.presence.run_round, on_stop=roles.presence.wake)
        loops.add("pending work", roles.work.run_round)
        loops.add_resting("planner", roles.planner.run_round, pending_work.planner(BEGIN_MS))
        loops.add("missed runs", roles.missed_runs.run_round)
        loops.add_resting(
            "dispatcher",
            roles.dispatcher.run_round,
            pending_work.dispatcher,
            rest=roles.dispatcher.rest,
            rest_seconds=SWEEP_MS / 1000,
        )
        self._confirming = loops.add(
            "confirmations", roles.confirmations.run_round, longest_seconds=NAP_SECONDS
        )
        loops.add("callbacks", roles.callbacks.run_round, on_stop=roles.callbacks.wake)
        if roles.log_places is not None:
            loops.add("log places", roles.log_places.run_round, longest_seconds=NAP_SECONDS)
        if roles.log_removal is not None:
            removal = roles.log_removal.run_round
            loops.add("log removal", removal, longest_seconds=NAP_SECONDS)
        loops.add_resting("rescuer", roles.rescuer.run_round, pending_work.rescuer)
        for name, run_round in (
            ("reaper", roles.reaper.run_round),
            ("reconciler", roles.reconciler.run_round),
        ):
            loops.add_resting(
                name, run_round, pending_work.settlers, longest_seconds=SETTLE_SECONDS
            )
        loops.add_resting("backfills", roles.refill.run_round, pending_work.backfills)
        loops.add_resting("killer", roles.killer.run_round, pending_work.killer)
        loops.add_resting("flow keeper", roles.flow_keeper.run_round, pending_work.flow_keeper)
        loops.add_resting("drainer", roles.drainer.run_round, pending_work.drainer)
        loops.add_periodic("board", {"board keeper": roles.board_keeper.run_round})
        records: dict[str, Callable[[int], float]] = {
            "load recorder": roles.load_recorder.run_round,
            "metrics": roles.metrics_recorder.run_round,
        }
        if roles.run_spans is not None:
            records["run spans"] = roles.run_spans.run_round
        loops.add_periodic("records", records)
        loops.add_periodic(
            "retention",
            {"reporter": roles.reporter.run_round, "cleaner": roles.cleaner.run_round},
        )
        loops.add_periodic(
            "watches",
            {
                "watcher": roles.watcher.run_round,
                "absence watch": roles.absence_watch.run_round,
                "health watch": roles.health_watch.run_round,
                "calendar watch": roles.calendar_watch.run_round,
                "epoch watch": roles.epoch_watch.run_round,
            },
        )
        if url := roles.heartbeat_url:
            caller = HeartbeatCaller(url, is_alive=self._is_cluster_alive)
            loops.add("heartbeat url", caller.run_round, longest_seconds=heartbeat.POLL_SECONDS)
