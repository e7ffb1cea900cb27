"""Rows into messages: builds triggers and hands them to the broker, with confirms pipelined.

This is the only place that publishes a trigger. It runs after the commit that routed the runs.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import structlog

from broker import topology
from broker.errors import Malformed
from broker.messages import Block, Trigger
from broker.signing import Direction, Sealer
from broker.transport import Batch, Confirm, Outgoing, Publisher
from scheduler.scripts import Script
from sql.rows import AnyRow

#: How long an executor may take a trigger from its queue; the id is remembered for longer.
TRIGGER_VALID_SECONDS = 600.0
#: How long a broker may take to confirm before the outcome counts as unknown.
CONFIRM_SECONDS = 5.0
#: How long after its decision a trigger may still be published. A scheduler that was frozen in
#: between publishes nothing: others have taken its runs over, and they may be anywhere by now.
STALE_SECONDS = 0.75

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A routed run with all that its trigger says."""

    app: str
    address: str
    trigger: Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of delivered triggers, as lists of parcels."""

    confirmed: list[Parcel]
    returned: list[Parcel]
    unknown: list[Parcel]
    unsendable: list[tuple[Parcel, str]]


class Shipment:
    """Triggers on their way; `batch` None = they were not published."""

    def __init__(
        self, parcels: list[Parcel], batch: Batch | None, unsendable: list[tuple[Parcel, str]]
    ) -> None:
        self._parcels = parcels
        self._batch = batch
        self._unsendable = unsendable
        self._give_up_at = time.monotonic() + CONFIRM_SECONDS

    @property
    def is_settled(self) -> bool:
        """Whether `receipt` has nothing to wait for."""
        return self._batch is None or self._batch.is_settled

    def receipt(self) -> Receipt:
        """Wait for the broker's word on each trigger, up to 5 s from its publishing."""
        by_fate: dict[Confirm, list[Parcel]] = {fate: [] for fate in Confirm}
        for parcel, fate in zip(self._parcels, self._fates(), strict=True):
            by_fate[fate].append(parcel)
        return Receipt(
            confirmed=by_fate[Confirm.CONFIRMED],
            returned=by_fate[Confirm.RETURNED],
            unknown=by_fate[Confirm.UNKNOWN],
            unsendable=self._unsendable,
        )

    def _fates(self) -> list[Confirm]:
        if self._batch is None:
            return [Confirm.UNKNOWN] * len(self._parcels)
        return self._batch.wait(max(0.0, self._give_up_at - time.monotonic()))


class Delivery:
    """Sends triggers to executors' queues."""

    def __init__(self, publisher: Publisher, sealer: Sealer) -> None:
        self._publisher = publisher
        self._sealer = sealer

    @property
    def is_open(self) -> bool:
        """Whether the broker takes messages now."""
        return self._publisher.is_ready

    def send(self, parcels: Iterable[Parcel], *, decided_at: float) -> Shipment:
        """Publish triggers; one that cannot be put into a message is reported as unsendable.

        `decided_at` is the monotonic time of the commit or the question that allowed it.
        """
        sendable: list[Parcel] = []
        messages: list[Outgoing] = []
        unsendable: list[tuple[Parcel, str]] = []
        for parcel in parcels:
            try:
                messages.append(self._seal(parcel))
                sendable.append(parcel)
            except (Malformed, ValueError) as error:
                unsendable.append((parcel, str(error)))
        is_stale = time.monotonic() - decided_at > STALE_SECONDS
        batch = None if is_stale else self._publisher.publish(messages)
        return Shipment(sendable, batch, unsendable)

    def _seal(self, parcel: Parcel) -> Outgoing:
        return self._sealer.seal(
            parcel.trigger,
            exchange=topology.TRIGGER_EXCHANGE,
            routing_key=_run_queue_name(parcel.app, parcel.address),
            address=parcel.address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=TRIGGER_VALID_SECONDS,
        )


@lru_cache(maxsize=4_096)
def _run_queue_name(app: str, address: str) -> str:
    """Return a queue's name, whose proof would cost 5 us for every trigger."""
    return topology.run_queue(app, address).name


def parcel(
    run: AnyRow,
    job: AnyRow,
    *,
    app: str,
    address: str,
    boot_id: str,
    routed_at: int,
    script: Script | None = None,
    resent: bool = False,
) -> Parcel:
    """Return the parcel of a run that goes to a boot of an executor; a script runs for a handler.

    Raises:
        ValueError: the job's row holds what no trigger can say.

    """
    return Parcel(
        app=app,
        address=address,
        trigger=Trigger(
            run_id=run.id,
            job_id=run.job_id,
            boot_id=boot_id,
            kind=run.kind,
            handler=run.executor_handler or "",
            param=run.executor_param or "",
            attempt=run.attempt,
            shard_index=run.shard_index,
            shard_total=run.shard_total,
            scheduled_at_ms=run.scheduled_at,
            block=Block(job.executor_block_strategy),
            concurrency=job.concurrency,
            timeout_seconds=job.executor_timeout,
            fresh_process=bool(job.fresh_process),
            script_language=script.language if script else "",
            script_source=script.source if script else "",
            resent=resent,
            routed_at_ms=routed_at,
        ),
    )


def parcels_again(
    rows: Sequence[AnyRow],
    jobs: Mapping[int, AnyRow],
    apps: Mapping[int, str],
    scripts: Mapping[int, Script | None],
) -> list[Parcel]:
    """Return the parcels of runs that were routed before, to the same address and boot.

    A run is left out when its job was deleted meanwhile, or can no more be put into a trigger.
    """
    again = (_parcel_again(row, jobs, apps, scripts) for row in rows)
    return [parcel for parcel in again if parcel is not None]


def _parcel_again(
    row: AnyRow,
    jobs: Mapping[int, AnyRow],
    apps: Mapping[int, str],
    scripts: Mapping[int, Script | None],
) -> Parcel | None:
    if row.job_id not in jobs or row.job_group not in apps:
        return None
    script = None if row.glue_id is None else scripts.get(row.glue_id)
    if script is None and row.glue_id is not None:
        return None
    try:
        return parcel(
            row,
            jobs[row.job_id],
            app=apps[row.job_group],
            address=row.executor_address,
            boot_id=row.boot_id,
            routed_at=row.routed_at,
            script=script,
            resent=True,
        )
    except ValueError as error:
        log.warning("trigger_not_made", run_id=row.id, job_id=row.job_id, error=str(error))
        return None
