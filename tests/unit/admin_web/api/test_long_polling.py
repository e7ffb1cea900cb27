"""Requests that wait, without a server: whatever becomes of one, the others are answered."""

import socket
from typing import Any, cast

from tests.support.eventually import eventually
from warren.admin_web.api.authentication import ConcurrencyLimits
from warren.admin_web.api.endpoint import Reply
from warren.admin_web.api.run_answers import HeldRequest, LongPolling, Wait
from warren.sql.engine import Database


class NoDatabase:
    def read(self, _unit: Any) -> Any:
        raise ConnectionError("away")


class Connection:
    """Notes what is done with it."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._is_broken = is_broken
        self.ended = ""

    def fileno(self) -> int:
        return self._ours.fileno()

    def has_left(self) -> bool:
        return False

    def resume(self) -> None:
        self.ended = "resumed"
        if self._is_broken:
            raise OSError("the server is gone")

    def drop(self) -> None:
        self.ended = "dropped"

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


def begin(polling: LongPolling, connection: Connection) -> None:
    wait = Wait(run_id=1, seconds=0, at_once=Reply(value=None), later=lambda _call, _is_last: None)
    held = HeldRequest(polling=polling, user_id=1, wait=wait, end_at=0, poll_at=0)
    polling.begin(held, connection)


def polling() -> LongPolling:
    places = ConcurrencyLimits(10, 10)
    return LongPolling(cast(Database, NoDatabase()), places=places, poll_seconds=0.01)


def test_a_connection_that_is_closed_already_is_dropped_and_another_answered() -> None:
    looking, closed, good = polling(), Connection(), Connection()
    closed.close()

    begin(looking, closed)
    begin(looking, good)

    eventually(lambda: (closed.ended, good.ended) == ("dropped", "resumed"))
    good.close()


def test_one_that_cannot_be_taken_up_again_keeps_no_other_from_it() -> None:
    looking, broken, good = polling(), Connection(is_broken=True), Connection()

    begin(looking, broken)
    eventually(lambda: broken.ended)
    begin(looking, good)

    eventually(lambda: good.ended)
    broken.close()
    good.close()
