"""Which bulk actions are remembered: all that go on, and of those that ended each user's last."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from threading import Event

import pytest

from tests.support.console import Clock, make_services
from tests.support.eventually import eventually
from warren.admin_web.pages.bulk import KNOWN, BulkAction, BulkWork, Work, WorkState
from warren.admin_web.visitors import actor_of
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.reruns import Outcome, Part
from warren.sql.accounts import users
from warren.sql.engine import Database
from warren.sql.models import User

MANY = 5 * KNOWN


@pytest.fixture
def operator(database: Database) -> User:
    found = database.read(lambda session: users.by_name(session, "operator"))
    assert found is not None
    return found


def stop(key: str, user_id: int) -> Work:
    return Work(key=key, action=BulkAction.STOP, user_id=user_id, ids=[1, 2], began_at=1)


def done(work: BulkWork, key: str, user_id: int) -> int:
    """Return how many objects an action has changed when it is done; before that, 0."""
    found = work.find(key, user_id)
    assert found is not None
    return found.done if found.state is WorkState.DONE else 0


def test_many_actions_of_others_displace_none_that_goes_on_or_waits(
    database: Database, clock: Clock, operator: User
) -> None:
    first_part, going_on = Event(), Event()

    def parts(_commands: Commands, _work: Work) -> Iterator[Part]:
        first_part.set()
        assert going_on.wait(30)
        yield Part(Counter({Outcome.DONE: 2}))

    work, actor = BulkWork(make_services(database, clock), parts), actor_of(operator, origin="")
    work.start(stop("running", operator.id), actor)
    assert first_part.wait(30)
    work.start(stop("waiting", operator.id), actor)
    for number in range(MANY):
        work.add_done(stop(f"other-{number}", operator.id + 1))
    going_on.set()

    assert [
        eventually(partial(done, work, key, operator.id)) for key in ("running", "waiting")
    ] == [2, 2]


def test_the_last_of_each_user_are_remembered(database: Database, clock: Clock) -> None:
    work = BulkWork(make_services(database, clock), lambda _commands, _work: iter(()))
    work.add_done(stop("of-one", 1))
    for number in range(MANY):
        work.add_done(stop(f"of-another-{number}", 2))

    kept = [number for number in range(MANY) if work.find(f"of-another-{number}", 2)]

    assert work.find("of-one", 1)
    assert kept == list(range(MANY - KNOWN, MANY))
