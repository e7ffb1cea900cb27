"""Incidents by the API: listed, shown and acknowledged."""

import pytest

from tests.support.api import Program
from warren.sql.alarms import incidents
from warren.sql.engine import Database
from warren.sql.registry import apps

FUTURE = "2030-12-01T08:00:00+00:00"


@pytest.fixture
def incident(database: Database) -> int:
    """An open incident of an app's job that is gone."""

    def unit(session: object) -> int:
        found = incidents.open_one(
            session,  # type: ignore[arg-type]
            job_id=4_711,
            app_id=apps.ensure(session, "reports")[0],  # type: ignore[arg-type]
            rule="finish_by",
            due_at=1_795_176_000_000,
            expected="07:00",
            now_ms=1_795_176_005_000,
            remind_ms=1_795_176_006_000,
        )
        assert found is not None
        return found

    return database.write(unit)


def test_whoever_acknowledges_an_incident_is_named_with_the_note(
    admin: Program, incident: int
) -> None:
    body = {"note": "waiting for the bank", "until": FUTURE}

    admin.post(f"/incidents/{incident}/ack", body)

    [listed] = admin.get("/incidents").get_json()["items"]
    assert listed == admin.get(f"/incidents/{incident}").get_json()
    assert (listed["status"], listed["rule"], listed["ack_note"]) == (
        "ACKNOWLEDGED",
        "finish_by",
        "waiting for the bank",
    )
    assert listed["ack_until_at"].startswith("2030-12-01T08:00:00")
    assert listed["acked_by"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"note": "two\nlines"}, 422),
        ({"until": "soon"}, 422),
        ({"until": "1999-01-01T00:00Z"}, 422),
    ],
)
def test_a_note_or_an_end_that_cannot_be_is_refused(
    admin: Program, incident: int, body: dict[str, str], code: int
) -> None:
    assert admin.post(f"/incidents/{incident}/ack", body).status_code == code


def test_a_closed_incident_is_listed_on_demand_and_not_acknowledged(
    admin: Program, incident: int, database: Database
) -> None:
    database.write(lambda session: incidents.close(session, incident, incidents.ClosedBy.KEPT, 1))

    assert admin.get("/incidents").get_json()["items"] == []
    assert len(admin.get("/incidents?all=true").get_json()["items"]) == 1
    assert admin.post(f"/incidents/{incident}/ack", {}).status_code == 409
    assert admin.get("/incidents/99999").status_code == 404
