"""A URL is called once a minute while the cluster does its work."""

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.webhook_server import WebhookServer
from warren.scheduler.roles import RoleLoops
from warren.scheduler.rounds import WakeUps
from warren.scheduler.watch.heartbeat import HeartbeatCaller


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_called_once_a_minute_and_only_while_the_cluster_is_alive() -> None:
    clock, alive = Clock(), [True]
    with WebhookServer() as hook:
        caller = HeartbeatCaller(hook.url, is_alive=lambda: alive[0], clock=clock)
        for clock.now in (0.0, 1.0, 59.0, 60.0):
            assert caller.run_round(0) > 0
        alive[0] = False
        clock.now = 120.0
        caller.run_round(0)
        assert len(hook.requests) == 2
        alive[0] = True
        caller.run_round(0)
        assert len(hook.requests) == 3


def test_a_server_that_is_away_is_only_logged() -> None:
    caller = HeartbeatCaller(f"http://127.0.0.1:{free_port()}/", is_alive=lambda: True)

    assert caller.run_round(0) > 0


def test_roles_advance_while_their_rounds_succeed() -> None:
    broken = [False]

    def round_(_now_ms: int) -> float:
        if broken[0]:
            raise OSError("no database")
        return 0.01

    loops = RoleLoops(lambda: 0, None, WakeUps())  # type: ignore[arg-type]
    loops.add("planner", round_)
    loops.add("cleaner", round_)
    assert not loops.all_advance(["planner"], 30.0)
    loops.start()
    try:
        eventually(lambda: loops.all_advance(["planner"], 30.0))
        assert not loops.all_advance(["planner", "dispatcher"], 30.0)
        broken[0] = True
        eventually(lambda: not loops.all_advance(["planner"], 30.0))
    finally:
        loops.stop()
        loops.join(60)
