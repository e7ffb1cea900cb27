"""What console and API processes do beside serving, every few seconds or minutes."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.support.console import SECRET
from tests.support.eventually import eventually
from tests.support.stored_rows import Rows
from warren.admin_web import template_globals
from warren.broker.messages import boot_seconds
from warren.scheduler.commands.command_context import KEY_MS
from warren.settings.settings import Settings
from warren.sql.accounts import idempotency
from warren.sql.accounts.idempotency import FormKey
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.models import IdempotencyKey
from warren.wiring.console import make_console
from warren.wiring.web import WebParts, make_api


@pytest.fixture
def database_clock(database: Database) -> DatabaseClock:
    return DatabaseClock(database, monotonic=boot_seconds)


@pytest.fixture(params=[make_console, make_api], ids=["console", "api"])
def process(
    request: pytest.FixtureRequest, database: Database, database_clock: DatabaseClock
) -> Iterator[Any]:
    """A process that is not started yet."""
    link: Any = SimpleNamespace(is_ready=bool, requester=None)
    parts = WebParts(
        settings=Settings(timezone="UTC"),
        database=database,
        clock=database_clock,
        link=link,
        secret=SECRET,
    )
    process = request.param(parts, port=0)
    yield process
    process.stop()


def test_a_process_hears_of_a_scheduler_that_comes_later(process: Any, rows: Rows) -> None:
    rows.scheduler("one", 1, zone="Asia/Kathmandu")
    assert process.zone.name() == "UTC"

    process.start()

    eventually(lambda: process.zone.name() == "Asia/Kathmandu")


@pytest.mark.parametrize("process", [make_console], indirect=True, ids=["console"])
def test_a_console_without_its_scripts_says_so(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_globals, "scripts_are_built", lambda: False)

    with structlog.testing.capture_logs() as logs:
        process.start()

    [told] = [one for one in logs if one["event"] == "console_scripts_missed"]
    assert told["hint"] == "make console"


def test_a_process_deletes_idempotency_keys_after_a_day(
    process: Any, database: Database, database_clock: DatabaseClock
) -> None:
    def store(session: Session, key: str, now_ms: int) -> None:
        form = FormKey(user_id=1, key=key)
        idempotency.claim_many(session, form, {"a": 1, "b": 2}, now_ms=now_ms)

    expired_ms = database_clock.now_ms() - KEY_MS
    database.write(lambda session: store(session, "old", expired_ms - 1))
    database.write(lambda session: store(session, "new", expired_ms + 600_000))

    process.start()

    def keys() -> list[str]:
        stored = select(IdempotencyKey.key).order_by(IdempotencyKey.key)
        return database.read(lambda session: list(session.execute(stored).scalars()))

    eventually(lambda: keys() == ["new:a", "new:b"])
