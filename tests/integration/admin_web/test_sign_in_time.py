"""How long a refusal takes, with passwords hashed as they are in earnest."""

import statistics
import time
from collections.abc import Iterator

import pytest

from tests.support.console import Clock, add_user
from warren.admin_web.access.sign_ins import SignInRefused, SignIns
from warren.sql.accounts.users import Role
from warren.sql.engine import Database

#: Pairs of one refusal each; all their time is that of this thread.
PAIRS = 15


@pytest.fixture
def database(sqlite_schema_url: str) -> Iterator[Database]:
    database = Database(sqlite_schema_url)
    add_user(database, "alice", Role.ADMINISTRATOR)
    yield database
    database.close()


def test_an_unknown_name_is_refused_as_slowly_as_a_known_one(database: Database) -> None:
    """The medians differ by a few percent. Asked for is a quarter, as others use these cores too.

    They are of times of the processor, taken by turns. A path that leaves the hash out, which is
    what a guesser would look for, takes a fraction of the time of the other. That both do the very
    same work, is counted in `tests/unit/admin_web/test_sign_in.py`.
    """
    clock = Clock()
    sign_ins = SignIns(database, clock.now_ms)

    def seconds(name: str) -> float:
        clock.pass_seconds(600)
        began = time.thread_time()
        answer = sign_ins.open(name, "not the password", origin="10.0.0.1", agent="")
        taken = time.thread_time() - began
        assert isinstance(answer, SignInRefused)
        return taken

    pairs = [(seconds("alice"), seconds(f"nobody-{number}")) for number in range(PAIRS)]
    known, unknown = (statistics.median(column) for column in zip(*pairs, strict=True))

    assert 0.8 < unknown / known < 1.25, (known, unknown)
