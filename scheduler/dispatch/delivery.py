"""Builds triggers from rows and publishes them, with pipelined confirms.

This is the only place that publishes a trigger. It runs after the commit that routed the runs.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from broker.messages.to_executor import Trigger
from broker.messages.values import Block
from broker.transport import Batch, Confirm, Publisher
from scheduler.dispatch.trigger_messages import Pack, RoutedTrigger, TriggerMessages
from scheduler.jobs.field_kinds import YesOrNo
from scheduler.jobs.script_cache import Script
from sql.jobs.jobs import JobToRun
from sql.runs.run_rows import PlannedRun, RoutedRun

#: How long a broker may take to confirm before the outcome counts as unknown.
CONFIRM_SECONDS = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """The results of delivery, as lists of routed triggers."""

    confirmed: list[RoutedTrigger]
    returned: list[RoutedTrigger]
    unknown: list[RoutedTrigger]
    unsendable: list[tuple[RoutedTrigger, str]]


class TriggerBatch:
    """Triggers whose confirms are awaited; `batch` is None if they were not published."""

    def __init__(
        self,
        packs: Sequence[Pack],
        batch: Batch | None,
        unsendable: list[tuple[RoutedTrigger, str]],
    ) -> None:
        self._packs = packs
        self._batch = batch
        self._unsendable = unsendable
        self._give_up_at = time.monotonic() + CONFIRM_SECONDS

    @property
    def is_settled(self) -> bool:
        """Whether `result` would return at once."""
        return self._batch is None or self._batch.is_settled

    def result(self) -> BatchResult:
        """Wait for the confirm of each message, up to 5 s from its publishing.

        It applies to every trigger in the message.
        """
        by_fate: dict[Confirm, list[RoutedTrigger]] = {fate: [] for fate in Confirm}
        for pack, fate in zip(self._packs, self._fates(), strict=True):
            by_fate[fate] += pack.triggers
        return BatchResult(
            confirmed=by_fate[Confirm.CONFIRMED],
            returned=by_fate[Confirm.RETURNED],
            unknown=by_fate[Confirm.UNKNOWN],
            unsendable=self._unsendable,
        )

    def _fates(self) -> list[Confirm]:
        if self._batch is None:
            return [Confirm.UNKNOWN] * len(self._packs)
        return self._batch.wait(max(0.0, self._give_up_at - time.monotonic()))


class Delivery:
    """Sends triggers to executors' queues.

    Args:
        publisher: where they are published.
        messages: packs and signs them.
        stale_seconds: how long after its decision a trigger may still be published.
        stamp: adds the trace that a trigger belongs to.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        publisher: Publisher,
        messages: TriggerMessages,
        *,
        stale_seconds: float,
        stamp: Callable[[Trigger], Trigger] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publisher = publisher
        self._messages = messages
        self._stale_seconds = stale_seconds
        self._stamp = stamp
        self._clock = clock

    @property
    def is_open(self) -> bool:
        """Whether the broker takes messages now."""
        return self._publisher.is_ready

    def send(self, triggers: Iterable[RoutedTrigger], *, decided_at: float) -> TriggerBatch:
        """Publish triggers; those that do not fit into a message are reported as unsendable.

        `decided_at` is the monotonic time of the commit or query that allowed it.
        """
        if self._stamp is not None:
            triggers = [replace(item, trigger=self._stamp(item.trigger)) for item in triggers]
        packs, unsendable = self._messages.make(triggers)
        is_stale = self._clock() - decided_at > self._stale_seconds
        messages = [pack.message for pack in packs]
        batch = None if is_stale else self._publisher.publish(messages)
        return TriggerBatch(packs, batch, unsendable)


def routed_trigger(
    run: PlannedRun | RoutedRun,
    job: JobToRun,
    *,
    app: str,
    address: str,
    boot_id: str,
    routed_at: int,
    script: Script | None = None,
    resent: bool = False,
) -> RoutedTrigger:
    """Return the trigger of a run for a boot of an executor; a script replaces the handler.

    Raises:
        ValueError: the job's row holds a value that no trigger can carry.

    """
    return RoutedTrigger(
        app=app,
        address=address,
        trigger=Trigger(
            run_id=run.id,
            job_id=run.job_id,
            boot_id=boot_id,
            kind=run.kind,
            handler=run.handler or "",
            param=run.param or "",
            attempt=run.attempt,
            shard_index=run.shard_index,
            shard_total=run.shard_total,
            scheduled_at_ms=run.scheduled_at,
            block=Block(job.block),
            concurrency=job.concurrency,
            timeout_seconds=job.timeout,
            fresh_process=YesOrNo().value(job.fresh_process),
            script_language=script.language if script else "",
            script_source=script.source if script else "",
            resent=resent,
            routed_at_ms=routed_at,
            traceparent=run.traceparent or "",
        ),
    )


def triggers_again(
    rows: Sequence[RoutedRun],
    jobs: Mapping[int, JobToRun],
    apps: Mapping[int, str],
    scripts: Mapping[int, Script | None],
) -> list[RoutedTrigger]:
    """Return the triggers of runs that were already routed, to the same address and boot.

    A run is left out if its job was deleted meanwhile, or no longer fits into a trigger.
    """
    again = (_trigger_again(row, jobs, apps, scripts) for row in rows)
    return [routed for routed in again if routed is not None]


def _trigger_again(
    row: RoutedRun,
    jobs: Mapping[int, JobToRun],
    apps: Mapping[int, str],
    scripts: Mapping[int, Script | None],
) -> RoutedTrigger | None:
    if row.job_id not in jobs or row.app_id not in apps:
        return None
    script = None if row.script_version is None else scripts.get(row.script_version)
    if script is None and row.script_version is not None:
        return None
    try:
        return routed_trigger(
            row,
            jobs[row.job_id],
            app=apps[row.app_id],
            address=row.address,
            boot_id=row.boot_id,
            routed_at=row.routed_at,
            script=script,
            resent=True,
        )
    except ValueError as error:
        log.warning("trigger_not_made", run_id=row.id, job_id=row.job_id, error=str(error))
        return None
