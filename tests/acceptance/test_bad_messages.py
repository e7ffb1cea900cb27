"""Messages by those who have no right to speak, on each queue: not obeyed, and in nobody's way."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tests.support.bad_messages import BAD_BODIES
from tests.support.deployment import SECRET, Deployment
from tests.support.eventually import eventually
from warren.broker.codec import BODY_LIMIT, HEADER_LIMIT
from warren.broker.messages import (
    Callback,
    Finished,
    Goodbye,
    Heartbeat,
    Kill,
    Load,
    Message,
    Outcome,
    Trigger,
)
from warren.broker.signing import ClusterKeys, Direction, Sealer
from warren.broker.topology import (
    CALLBACK_KEY,
    DEAD_QUEUE,
    HEARTBEAT_KEY,
    REPLY_EXCHANGE,
    TRIGGER_EXCHANGE,
    command_queue,
    run_queue,
)
from warren.broker.transport import Confirm, Outgoing
from warren.sql.run_status import RunStatus

#: Ids that no run of these deployments has.
NOBODYS = 8_000_000_000_000_000
ADDRESS = "steady"


class Mouth:
    """Says one message in every wrong way."""

    def __init__(
        self,
        deployment: Deployment,
        message: Message,
        *,
        exchange: str,
        key: str,
        direction: Direction,
    ) -> None:
        self._message = message
        self._exchange = exchange
        self._key = key
        self._direction = direction
        self._sealer = deployment.sealer()
        self._cluster = self._sealer.cluster

    def right(self, message: Message | None = None) -> Outgoing:
        return self._seal(self._sealer, message=message)

    def wrong(self) -> dict[str, Outgoing]:
        """Return one message for each thing that can be wrong with it, by what is wrong."""
        good = self.right()
        clock = self._sealer._clock
        return {
            "unsigned": self._without(good, "mac"),
            "large headers": replace(good, headers={**good.headers, "more": "x" * 100_000}),
            "no version": self._without(good, "v"),
            "no headers": replace(good, headers={}),
            "of another version": replace(good, headers={**good.headers, "v": "999"}),
            "wrong secret": self._seal(Sealer(ClusterKeys("x" * 40), self._cluster, clock)),
            "wrong bytes": replace(good, body=good.body + b" "),
            "later expiry": replace(good, headers={**good.headers, "expiry": "9" * 16}),
            "other cluster": self._seal(Sealer(ClusterKeys(SECRET), "another-cluster", clock)),
            "expired": self._seal(self._sealer, valid_seconds=-3600.0),
            "other queue": replace(
                self._seal(self._sealer, key="warren.run.demo.else"), routing_key=self._key
            ),
            "other executor": self._seal(self._sealer, address="else"),
            "other app": self._seal(self._sealer, app="else"),
            "other direction": self._seal(self._sealer, direction=_other(self._direction)),
        } | {name: self._signed(good, body) for name, body in BAD_BODIES.items()}

    def _seal(self, sealer: Sealer, message: Message | None = None, **changes: Any) -> Outgoing:
        options: dict[str, Any] = {
            "exchange": self._exchange,
            "routing_key": changes.get("key", self._key),
            "app": changes.get("app", "demo"),
            "address": changes.get("address", ADDRESS),
            "direction": changes.get("direction", self._direction),
            "valid_seconds": changes.get("valid_seconds", 600.0),
        }
        return sealer.seal(message or self._message, **options)

    def _without(self, message: Outgoing, header: str) -> Outgoing:
        headers = {name: value for name, value in message.headers.items() if name != header}
        return replace(message, headers=headers)

    def _signed(self, message: Outgoing, body: bytes) -> Outgoing:
        """Sign what is no message: the secret alone must not make it one."""
        headers = dict(message.headers)
        headers["mac"] = self._sealer._macs(headers, self._direction, self._key, body)[0]
        return replace(message, headers=headers, body=body)


def test_bad_triggers_start_nothing_and_the_next_good_one_does(fleet: Deployment) -> None:
    fleet.job("good")
    boot_id = fleet.await_status(fleet.trigger("good"), RunStatus.SUCCEEDED).boot_id or ""
    queue = run_queue("demo", ADDRESS).name
    trigger = Trigger(
        run_id=NOBODYS,
        job_id=1,
        boot_id=boot_id,
        kind="MANUAL",
        handler="noop",
        scheduled_at_ms=fleet.now_ms(),
    )
    mouth = Mouth(
        fleet, trigger, exchange=TRIGGER_EXCHANGE, key=queue, direction=Direction.TO_EXECUTOR
    )
    wrong = mouth.wrong()
    other_boot = mouth.right(
        msgspec.structs.replace(trigger, boot_id="another-boot", run_id=NOBODYS + 1)
    )
    before = _dead(fleet)

    _publish(fleet, [*wrong.values(), other_boot])

    run_id = fleet.trigger("good")
    fleet.await_status(run_id, RunStatus.SUCCEEDED)
    expired = 1  # that one is rightly signed, and so it is answered
    kept = len(wrong) - expired - _oversized(wrong)
    eventually(lambda: _dead(fleet) == before + kept, every=0.1)
    eventually(lambda: len(fleet.logged("message_dropped", queue)) == _oversized(wrong))
    for answered in (NOBODYS, NOBODYS + 1):
        eventually(lambda it=answered: fleet.logged("callbacks_rejected", str(it)))
    assert [start for start in fleet.starts() if start["run"] >= NOBODYS] == []


def test_bad_commands_are_not_obeyed_and_the_next_good_one_is(fleet: Deployment) -> None:
    fleet.job("victim", handler="until-file", param=str(fleet.folder / "never"))
    run = fleet.await_status(fleet.trigger("victim"), RunStatus.RUNNING)
    queue = command_queue("demo", ADDRESS, run.boot_id or "").name
    kill = Kill(run_id=run.id, reason="by a stranger")
    mouth = Mouth(
        fleet, kill, exchange=TRIGGER_EXCHANGE, key=queue, direction=Direction.TO_EXECUTOR
    )

    wrong = mouth.wrong()

    _publish(fleet, list(wrong.values()))
    silently = 1  # what is rightly signed and only late is left alone
    rejected = len(wrong) - silently - _oversized(wrong)
    eventually(lambda: len(fleet.logged("message_rejected", queue)) == rejected, every=0.1)
    fleet.job("good")
    fleet.await_status(fleet.trigger("good"), RunStatus.SUCCEEDED)
    assert fleet.status(run.id) == RunStatus.RUNNING

    _publish(fleet, [mouth.right(Kill(run_id=run.id, reason="by the right one"))])

    killed = fleet.await_status(run.id, RunStatus.KILLED)
    assert "by the right one" in (killed.message or "")


def test_bad_callbacks_end_no_run_and_the_next_good_one_does(
    fleet: Deployment, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    fleet.job("reporting", handler="until-file", param=str(release))
    run = fleet.await_status(fleet.trigger("reporting"), RunStatus.RUNNING)
    boot_id = run.boot_id or ""

    def callback(message: str) -> Callback:
        finished = Finished(
            run_id=run.id,
            boot_id=boot_id,
            outcome=Outcome.FAILED,
            message=message,
            finished_at_ms=fleet.now_ms(),
        )
        return Callback(app="demo", address=ADDRESS, boot_id=boot_id, reports=(finished,))

    mouth = Mouth(
        fleet,
        callback("by a stranger"),
        exchange=REPLY_EXCHANGE,
        key=CALLBACK_KEY,
        direction=Direction.FROM_EXECUTOR,
    )
    wrong = mouth.wrong()
    before = _dead(fleet)

    _publish(fleet, list(wrong.values()))
    eventually(lambda: _dead(fleet) == before + len(wrong) - _oversized(wrong), every=0.1)
    assert fleet.status(run.id) == RunStatus.RUNNING
    _publish(fleet, [mouth.right(callback("by the right one"))])

    assert fleet.await_status(run.id, RunStatus.FAILED).message == "by the right one"
    release.touch()


def test_bad_heartbeats_make_no_executor_and_take_none_away(fleet: Deployment) -> None:
    fleet.job("good")
    boot_id = fleet.await_status(fleet.trigger("good"), RunStatus.SUCCEEDED).boot_id or ""
    goodbye = Goodbye(app="demo", address=ADDRESS, boot_id=boot_id)
    stranger = Heartbeat(
        app="strange-app",
        address=ADDRESS,
        boot_id="strange-boot",
        started_at_ms=fleet.now_ms(),
        load=Load(),
    )
    wrong = [
        message
        for said in (goodbye, stranger)
        for message in Mouth(
            fleet,
            said,
            exchange=REPLY_EXCHANGE,
            key=HEARTBEAT_KEY,
            direction=Direction.FROM_EXECUTOR,
        )
        .wrong()
        .values()
    ]

    _publish(fleet, wrong)

    # Each of the two schedulers hears every heartbeat.
    eventually(
        lambda: len(fleet.logged("message_rejected", "warren.beat.")) >= 2 * len(wrong),
        every=0.1,
    )
    fleet.await_status(fleet.trigger("good"), RunStatus.SUCCEEDED)
    listed = fleet.warren("executors", "list", "--json")
    assert ADDRESS in listed
    assert "strange" not in listed


def _other(direction: Direction) -> Direction:
    return next(one for one in Direction if one is not direction)


def _publish(fleet: Deployment, messages: list[Outgoing]) -> None:
    assert set(fleet.publish(*messages)) == {Confirm.CONFIRMED}


def _oversized(messages: Mapping[str, Outgoing]) -> int:
    """Return how many are larger than any message of ours: these are dropped, not kept."""
    return sum(
        len(message.body) > BODY_LIMIT or sum(map(len, message.headers.values())) > HEADER_LIMIT
        for message in messages.values()
    )


def _dead(fleet: Deployment) -> int:
    """Count the messages that were given up."""
    transport = fleet.transport()
    try:
        return transport.admin("by hand").count_messages(DEAD_QUEUE.name) or 0
    finally:
        transport.close()
