"""The alert rules and the dashboard in deploy/: they name what /metrics serves, and they work."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.console import METRICS_TOKEN, Clock, Visit
from tests.support.stored_rows import Rows
from warren.sql import metrics as stored_metrics
from warren.sql.engine import Database
from warren.sql.metrics import Counted, CountKey
from warren.sql.models import Incident
from warren.sql.registry import pauses

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "warren.json"


@pytest.fixture
def metrics(visit: Visit, rows: Rows, database: Database, clock: Clock) -> str:
    """All metrics, each with at least one line."""
    job_id, app_id = rows.job("nightly", is_enabled=1), rows.app()
    histograms = (Counted.DURATION, Counted.LATENESS)
    database.write(
        lambda session: stored_metrics.add(
            session, {CountKey(one, app_id, "100"): 1 for one in histograms}
        )
    )
    database.write(lambda session: stored_metrics.keep_successes(session, {job_id: clock.now}))
    told = {"expected": "5m", "opened_at": clock.now, "remind_at": clock.now}
    incident = Incident(job_id=job_id, app_id=app_id, rule="longest", due_at=clock.now, **told)
    database.write(lambda session: session.add(incident))
    pause = {"by": "alice", "reason": "", "now_ms": clock.now, "until_ms": None}
    database.write(lambda session: pauses.begin(session, app_id, **pause))
    allowed = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    return visit.get("/metrics", headers=allowed).text


def promtool(*words: str, given: str | None = None) -> str:
    """Run promtool in the rules' folder; return what it says, and fail if it fails."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("needs promtool, from Debian's package prometheus")
    done = subprocess.run(
        [program, *words],
        cwd=RULES.parent,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_every_metric_of_rules_and_dashboard_is_served(metrics: str) -> None:
    families = text_string_to_metric_families(metrics)
    served = {sample.name for family in families for sample in family.samples}
    rules = [one["expr"] for one in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]

    named = {name for words in (*rules, *shown) for name in re.findall(r"\bwarren_\w+", words)}

    assert named - served == set()
    assert {"warren_runs_total", "warren_run_lateness_seconds_bucket"} <= named


@pytest.mark.release
def test_each_rule_fires_when_it_must_and_is_silent_otherwise() -> None:
    promtool("check", "rules", RULES.name)
    promtool("test", "rules", "alerts_test.yml")


@pytest.mark.release
def test_prometheus_finds_nothing_wrong_with_the_text(metrics: str) -> None:
    assert promtool("check", "metrics", given=metrics) == ""
