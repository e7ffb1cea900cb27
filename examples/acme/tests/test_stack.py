"""What only a whole Warren shows: job processes, params that are refused, and the service."""

import pytest
from acme_service.main import app
from fastapi.testclient import TestClient

from warren import ApiError
from warren.wiring.stack import Stack


def test_a_job_runs_in_a_process_of_its_own(warren_stack: Stack) -> None:
    run = warren_stack.trigger("load-orders", '{"day": "2026-12-01"}').wait()

    assert (run.status, run.result) == (
        "SUCCEEDED",
        {"orders": 3, "total": "20.00", "currency": "EUR"},
    )


def test_a_param_that_does_not_fit_is_refused_before_anything_runs(warren_stack: Stack) -> None:
    with pytest.raises(ApiError, match="currency"):
        warren_stack.trigger("load-orders", '{"day": "2026-12-01", "currency": "USD"}')


def test_a_load_without_a_day_is_refused_with_what_it_takes(warren_stack: Stack) -> None:
    with pytest.raises(ApiError, match="takes day: date, shops"):
        warren_stack.trigger("load-orders")


def test_a_declared_job_is_there(warren_stack: Stack) -> None:
    run = warren_stack.trigger("orders.tidy").wait()

    assert (run.status, run.result) == ("SUCCEEDED", 0)


def test_the_service_triggers_and_waits(
    warren_stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_API_URL", warren_stack.api_url)
    monkeypatch.setenv("WARREN_API_TOKEN", warren_stack.api_token)

    with TestClient(app) as service:
        asked = service.post("/orders/2026-12-01")
        again = service.post("/orders/2026-12-01")
        ended = service.get(f"/loadings/{asked.json()['run']}")
        unknown = service.get("/loadings/4711")

    assert (asked.status_code, again.json()["run"]) == (202, asked.json()["run"])
    assert ended.json()["status"] == "SUCCEEDED"
    assert (ended.json()["orders"], ended.json()["total"]) == (3, "20.00")
    assert unknown.status_code == 404
