"""Rows into messages: builds triggers and hands them to the broker, with confirms pipelined.

This is the only place that publishes a trigger. It runs after the commit that routed the runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker import topology
from broker.errors import Malformed
from broker.messages import Block, Trigger
from broker.signing import Direction, Sealer
from broker.transport import Batch, Confirm, Outgoing, Publisher
from sql.rows import AnyRow

#: How long an executor may take a trigger from its queue; the id is remembered for longer.
TRIGGER_VALID_SECONDS = 600.0
#: How long a broker may take to confirm before the outcome counts as unknown.
CONFIRM_SECONDS = 5.0


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
    """Triggers on their way."""

    def __init__(
        self, parcels: list[Parcel], batch: Batch, unsendable: list[tuple[Parcel, str]]
    ) -> None:
        self._parcels = parcels
        self._batch = batch
        self._unsendable = unsendable

    def receipt(self) -> Receipt:
        """Wait for the broker's word on each trigger, up to 5 s."""
        fates = self._batch.wait(CONFIRM_SECONDS)
        by_fate: dict[Confirm, list[Parcel]] = {fate: [] for fate in Confirm}
        for parcel, fate in zip(self._parcels, fates, strict=True):
            by_fate[fate].append(parcel)
        return Receipt(
            confirmed=by_fate[Confirm.CONFIRMED],
            returned=by_fate[Confirm.RETURNED],
            unknown=by_fate[Confirm.UNKNOWN],
            unsendable=self._unsendable,
        )


class Delivery:
    """Sends triggers to executors' queues."""

    def __init__(self, publisher: Publisher, sealer: Sealer) -> None:
        self._publisher = publisher
        self._sealer = sealer

    @property
    def is_open(self) -> bool:
        """Whether the broker takes messages now."""
        return self._publisher.is_ready

    def send(self, parcels: Iterable[Parcel]) -> Shipment:
        """Publish triggers; one that cannot be put into a message is reported as unsendable."""
        sendable: list[Parcel] = []
        messages: list[Outgoing] = []
        unsendable: list[tuple[Parcel, str]] = []
        for parcel in parcels:
            try:
                messages.append(self._seal(parcel))
                sendable.append(parcel)
            except (Malformed, ValueError) as error:
                unsendable.append((parcel, str(error)))
        return Shipment(sendable, self._publisher.publish(messages), unsendable)

    def _seal(self, parcel: Parcel) -> Outgoing:
        return self._sealer.seal(
            parcel.trigger,
            exchange=topology.TRIGGER_EXCHANGE,
            routing_key=topology.run_queue(parcel.app, parcel.address).name,
            address=parcel.address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=TRIGGER_VALID_SECONDS,
        )


def parcel(
    run: AnyRow, job: AnyRow, *, app: str, address: str, boot_id: str, resent: bool = False
) -> Parcel:
    """Return the parcel of a run that goes to a boot of an executor."""
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
            resent=resent,
        ),
    )


def parcels_again(
    rows: Sequence[AnyRow], jobs: Mapping[int, AnyRow], apps: Mapping[int, str]
) -> list[Parcel]:
    """Return the parcels of runs that were routed before, to the same address and boot.

    A run whose job was deleted meanwhile is left out.
    """
    return [
        parcel(
            row,
            jobs[row.job_id],
            app=apps[row.job_group],
            address=row.executor_address,
            boot_id=row.boot_id,
            resent=True,
        )
        for row in rows
        if row.job_id in jobs and row.job_group in apps
    ]
