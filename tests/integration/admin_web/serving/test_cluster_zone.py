"""Console and API processes read the schedulers' zone again every few seconds."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.boot_time import boot_seconds
from sql.clock import DatabaseClock
from sql.engine import Database
from tests.support.console import SECRET
from tests.support.eventually import eventually
from tests.support.stored_rows import Rows
from warren.settings.settings import Settings
from warren.wiring.api import make_api
from warren.wiring.console import make_console


@pytest.mark.parametrize(("make", "secret"), [(make_console, [SECRET]), (make_api, [])])
def test_a_process_hears_of_a_scheduler_that_comes_later(
    make: Any, secret: list[str], database: Database
) -> None:
    settings, link = Settings(timezone="UTC"), SimpleNamespace(is_ready=bool, requester=None)
    process = make(
        settings, database, *secret, DatabaseClock(database, monotonic=boot_seconds), link, port=0
    )
    rows = Rows(database.url.render_as_string(hide_password=False))
    rows.scheduler("one", 1, zone="Asia/Kathmandu")
    assert process.zone.name() == "UTC"

    process.start()
    try:
        eventually(lambda: process.zone.name() == "Asia/Kathmandu")
    finally:
        process.stop()
        rows.database.close()
