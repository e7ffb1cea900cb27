"""The page of limits: who holds them, who waits, and who may change them."""

from collections.abc import Callable

from tests.support.acting import acting
from tests.support.console import Visit, signed_in
from tests.support.stored_rows import Rows
from warren.scheduler.limits import LimitSpec
from warren.sql.engine import Database
from warren.sql.models import Hold


def test_an_administrator_makes_changes_and_deletes_a_limit(admin: Visit) -> None:
    for at_once in ("3", "4"):
        form = {"limit_name": "warehouse", "at_once": at_once}
        page = admin.post("/limits/save", form, follow_redirects=True)

    assert "0 of 4" in page.text
    page = admin.post("/limits/warehouse/delete", {}, follow_redirects=True)
    assert "Limit warehouse deleted." in page.text
    assert "No limits yet." in page.text


def test_a_limit_that_cannot_be_is_refused_beside_the_form(admin: Visit) -> None:
    none = admin.post("/limits/save", {"limit_name": "warehouse"})
    soon = admin.post("/limits/save", {"limit_name": "w", "rate": "3", "per": "soon"})

    assert (none.status_code, soon.status_code) == (422, 422)
    assert "to have at_once, or rate and per" in none.text
    assert "Enter a duration such as 30s, 1m or 1h." in soon.text


def test_the_page_and_a_runs_page_say_who_holds_and_who_waits(
    admin: Visit, rows: Rows, database: Database, clock: Callable[[], int]
) -> None:
    acting(database).limits.apply(LimitSpec(name="warehouse", at_once=1))
    now_ms = clock.now  # type: ignore[attr-defined]
    job_id = rows.job("load", limits="warehouse")
    holder = rows.run(job_id, now_ms - 9_000, status="RUNNING", holds=1, routed_at=now_ms)
    waiting = rows.run(job_id, now_ms - 5_000)
    database.write(lambda session: session.add(Hold(limit_id=1, run_id=holder, weight=1)))

    page, run = admin.get("/limits").text, admin.get(f"/runs/{waiting}").text

    assert "1 of 1" in page
    assert f"load #{holder}" in page
    assert f"it waits for warehouse (1 of 1: load #{holder})" in run


def test_what_belongs_to_other_apps_is_not_named(
    app: object, rows: Rows, database: Database, clock: Callable[[], int]
) -> None:
    acting(database).limits.apply(LimitSpec(name="warehouse", at_once=1))
    now_ms = clock.now  # type: ignore[attr-defined]
    job_id = rows.job("secret-load", app="others", limits="warehouse")
    values = {"status": "RUNNING", "holds": 1, "routed_at": now_ms}
    holder = rows.run(job_id, now_ms - 9_000, app="others", **values)
    database.write(lambda session: session.add(Hold(limit_id=1, run_id=holder, weight=1)))

    page = signed_in(app, "viewer").get("/limits").text  # type: ignore[arg-type]

    assert "another app" in page
    assert "secret-load" not in page
    assert "Add or change a limit" not in page


def test_all_that_is_wrong_with_a_limit_is_told_at_once_beside_its_fields(admin: Visit) -> None:
    broken = admin.post(
        "/limits/save", {"limit_name": "Bad", "at_once": "0", "rate": "3", "per": "2d"}
    ).text
    unreadable = admin.post(
        "/limits/save", {"limit_name": "Bad", "at_once": "x", "rate": "0", "per": "soon"}
    ).text

    for page in (broken, unreadable):
        wrong = [
            name for name in ("limit_name", "at_once", "rate", "per") if f'"{name}-error"' in page
        ]
        assert wrong == ["limit_name", "at_once", *(["rate"] if page is unreadable else []), "per"]
