"""Metrics of runs and jobs, in the text that Prometheus reads."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.console import METRICS_TOKEN, Clock, Visit, make_app
from tests.support.stored_rows import Rows
from warren.sql import metrics
from warren.sql.board.job_states import Trouble
from warren.sql.engine import Database
from warren.sql.metrics import ABOVE, SUM, Counted, CountKey
from warren.sql.models import JobState


def scraped(visit: Visit) -> str:
    return visit.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"}).text


@pytest.fixture
def app_id(database: Database, rows: Rows) -> int:
    """The id of the app of a job that exists."""
    rows.job("nightly", is_enabled=1)
    return rows.app()


def count(database: Database, app_id: int, name: Counted, **numbers: int) -> None:
    stored = {CountKey(name, app_id, label.strip("_")): n for label, n in numbers.items()}
    database.write(lambda session: metrics.add(session, stored))


def lines_of(text: str, name: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(name)]


def test_runs_are_told_from_0_for_every_status_so_that_the_first_failure_is_a_rise(
    visit: Visit, app_id: int, database: Database
) -> None:
    before = scraped(visit)
    count(database, app_id, Counted.RUNS, FAILED=1)
    after = scraped(visit)

    assert "# TYPE warren_runs_total counter" in before
    assert 'warren_runs_total{app="reports",status="FAILED"} 0.0' in before
    assert 'warren_runs_total{app="reports",status="FAILED"} 1.0' in after
    assert len(lines_of(after, 'warren_runs_total{app="reports"')) == 9


def test_buckets_are_told_in_order_and_each_with_what_is_below_it(
    visit: Visit, app_id: int, database: Database
) -> None:
    count(database, app_id, Counted.DURATION, _100=2, _1000=3, **{ABOVE: 1, SUM: 40_000_500})

    text = scraped(visit)

    buckets = re.findall(
        r'warren_run_duration_seconds_bucket\{app="reports",le="(.+)"\} (.+)', text
    )
    assert [float(bound) for bound, _ in buckets] == sorted(float(bound) for bound, _ in buckets)
    assert [float(below) for _, below in buckets[:4]] == [2, 2, 5, 5]
    assert buckets[-2][1] == "5.0"
    assert buckets[-1] == ("+Inf", "6.0")
    assert 'warren_run_duration_seconds_count{app="reports"} 6.0' in text
    assert 'warren_run_duration_seconds_sum{app="reports"} 40000.5' in text


def test_a_bucket_of_an_earlier_version_is_still_counted(
    visit: Visit, app_id: int, database: Database
) -> None:
    count(database, app_id, Counted.LATENESS, _70=4, _100=1)

    text = scraped(visit)

    assert 'warren_run_lateness_seconds_bucket{app="reports",le="0.07"} 4.0' in text
    assert 'warren_run_lateness_seconds_bucket{app="reports",le="+Inf"} 5.0' in text


def test_only_due_runs_that_nobody_has_yet_are_waiting(
    visit: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly", is_enabled=1)
    rows.run(job_id, clock.now - 1, status="PLANNED")
    rows.run(job_id, clock.now + 5_000, status="PLANNED")
    rows.run(job_id, clock.now - 2, status="SENT")

    assert 'warren_runs_waiting{app="reports"} 1.0' in scraped(visit)


def test_jobs_in_trouble_are_counted_by_app_and_by_what_is_wrong(
    visit: Visit, rows: Rows, database: Database
) -> None:
    troubles = {"one": Trouble.FAILING, "two": Trouble.FAILING, "three": Trouble.LONG}
    for name, trouble in {**troubles, "four": Trouble.NONE}.items():
        state = JobState(job_id=rows.job(name), trouble=trouble.value)
        database.write(lambda session, state=state: session.add(state))

    lines = lines_of(scraped(visit), "warren_jobs_in_trouble{")

    assert dict(re.findall(r'app="reports",trouble="(.+)"} (.+)', "\n".join(lines))) == {
        "failing": "2.0",
        "lost": "0.0",
        "skipped": "0.0",
        "waiting": "0.0",
        "slow": "0.0",
        "long": "1.0",
    }


def test_names_with_quotes_backslashes_and_line_ends_come_back_as_they_are(
    visit: Visit, database: Database, rows: Rows
) -> None:
    name = 'na"me\\with\nall'
    job_id = rows.job(name, is_enabled=1)
    database.write(lambda session: metrics.keep_successes(session, {job_id: 1_800_000_000_500}))

    families = text_string_to_metric_families(scraped(visit))

    found = next(one for one in families if one.name == "warren_job_last_success_timestamp_seconds")
    assert [(one.labels["job"], one.value) for one in found.samples] == [(name, 1_800_000_000.5)]


def test_jobs_have_metrics_up_to_the_limit_and_only_while_they_are_enabled(
    database: Database, rows: Rows, clock: Clock
) -> None:
    jobs = {name: rows.job(name, is_enabled=int(name != "off")) for name in ("off", "a", "b", "c")}
    database.write(
        lambda session: metrics.keep_successes(session, dict.fromkeys(jobs.values(), 1_000))
    )

    text = scraped(Visit(make_app(database, clock, metrics_jobs=2)))
    none = scraped(Visit(make_app(database, clock, metrics_jobs=0)))

    told = re.findall(r'last_success_timestamp_seconds\{.*job="(.+)"\}', text)
    assert told == ["a", "b"]
    assert lines_of(none, "warren_job_last_success_timestamp_seconds{") == []


def test_the_numbers_of_a_deleted_app_are_not_told(
    visit: Visit, app_id: int, database: Database
) -> None:
    count(database, app_id + 1_000, Counted.RUNS, FAILED=1)

    assert "1.0" not in "".join(lines_of(scraped(visit), "warren_runs_total"))
