"""The page of incidents: what is not as expected, and who has seen it."""

from tests.support.console import Clock, Visit
from tests.support.sample_app import add_sample_app
from tests.support.stored_rows import Rows
from warren.sql.alarms import incidents
from warren.sql.alarms.incidents import ClosedBy
from warren.sql.engine import Database


def test_an_operator_acknowledges_an_incident_on_its_page(
    admin: Visit, rows: Rows, database: Database, clock: Clock
) -> None:
    made = add_sample_app(rows, "reports", lambda name: name, clock.now)
    incident_id = made.ids["incident_id"]
    assert "not succeeded in time" in admin.get("/incidents").text

    path = f"/incidents/{incident_id}/ack"
    page = admin.post(path, {"note": "the bank is late", "hours": "4"}, follow_redirects=True)

    assert "the bank is late" in page.text
    found = database.read(lambda session: incidents.find(session, incident_id))
    assert found is not None
    assert found.ack_until == clock.now + 4 * 3_600_000


def test_a_closed_incident_is_shown_on_demand_and_refuses(
    admin: Visit, rows: Rows, database: Database, clock: Clock
) -> None:
    made = add_sample_app(rows, "reports", lambda name: name, clock.now)
    incident_id = made.ids["incident_id"]
    database.write(lambda session: incidents.close(session, incident_id, ClosedBy.KEPT, clock.now))

    assert "No incidents." in admin.get("/incidents").text
    assert "not succeeded in time" in admin.get("/incidents?all=1").text
    page = admin.post(f"/incidents/{incident_id}/ack", {}, follow_redirects=True)
    assert "is already closed" in page.text
