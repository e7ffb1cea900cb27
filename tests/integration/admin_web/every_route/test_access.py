"""Every route with every role: what may be called is exactly what stands here."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from flask import Flask

from tests.support.console import Visit, signed_in
from tests.support.console_fixtures import USERS
from warren.admin_web.access.gate import Gate
from warren.scheduler.actor import Right

EVERYBODY = frozenset(USERS)
NOBODY_ELSE = frozenset({"admin"})
SCRIPTERS = frozenset({"admin", "scripter"})
OPERATORS = frozenset({"admin", "operator", "scripter", "stranger"})


@dataclass(frozen=True)
class Expected:
    """Who may call an endpoint, and what to call it with.

    `anonymous`: also who has not signed in. `admits`: what it answers to those who may.
    """

    roles: frozenset[str] = EVERYBODY
    anonymous: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)
    admits: frozenset[int] = frozenset({200, 303})


#: One line for each endpoint; a new one without a line fails the first test.
TABLE: dict[str, Expected] = {
    "static": Expected(anonymous=True, values={"filename": "console.css"}),
    "sign_in.login": Expected(anonymous=True, admits=frozenset({200, 422})),
    "sign_in.logout": Expected(),
    "sign_in.browser": Expected(anonymous=True),
    "sso.start": Expected(anonymous=True, admits=frozenset({404})),
    "sso.callback": Expected(anonymous=True, admits=frozenset({404})),
    "sso.link": Expected(admits=frozenset({404})),
    "group_rules.index": Expected(NOBODY_ELSE),
    "group_rules.preview": Expected(NOBODY_ELSE, admits=frozenset({422})),
    "group_rules.apply": Expected(NOBODY_ELSE, admits=frozenset({422})),
    "users.link": Expected(NOBODY_ELSE, values={"user_id": 999}, admits=frozenset({404})),
    "users.unlink": Expected(NOBODY_ELSE, values={"user_id": 999}, admits=frozenset({404})),
    "board.show": Expected(),
    "board.icon": Expected(),
    "mutes.ask": Expected(OPERATORS),
    "mutes.start": Expected(OPERATORS),
    "dashboard.show": Expected(),
    "calendars.index": Expected(),
    "calendars.show": Expected(values={"name": "cn"}, admits=frozenset({404})),
    "account.show": Expected(),
    "account.change_password": Expected(admits=frozenset({422})),
    "account.change_preferences": Expected(form={"language": "", "timezone": "", "theme": ""}),
    "account.change_theme": Expected(form={"theme": "dark"}),
    "account.end_sign_in": Expected(values={"sign_in_id": 999}),
    "jobs.index": Expected(),
    "jobs.show": Expected(values={"job_id": 999}, admits=frozenset({404})),
    "jobs.export": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "jobs.new": Expected(OPERATORS),
    "jobs.create": Expected(OPERATORS, admits=frozenset({422})),
    "jobs.copy": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "jobs.create_copy": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "jobs.edit": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "jobs.save": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "jobs.preview": Expected(),
    "jobs.preview_flow": Expected(OPERATORS),
    "job_actions.start": Expected(OPERATORS),
    "job_actions.stop": Expected(OPERATORS),
    "job_actions.trigger": Expected(OPERATORS),
    "job_actions.ask_switch": Expected(
        OPERATORS, values={"job_id": 999, "action": "stop"}, admits=frozenset({404})
    ),
    "job_actions.ask_delete": Expected(OPERATORS),
    "job_actions.delete": Expected(OPERATORS),
    "job_actions.ask_trigger": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "job_actions.preview_trigger": Expected(
        OPERATORS, values={"job_id": 999}, admits=frozenset({404})
    ),
    "job_actions.trigger_one": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "audit_log.show": Expected(NOBODY_ELSE),
    "runs.index": Expected(),
    "runs.job_names": Expected(),
    "runs.show": Expected(values={"run_id": 999}, admits=frozenset({404})),
    "runs.log": Expected(values={"run_id": 999}, admits=frozenset({404})),
    "runs.log_difference": Expected(values={"run_id": 999}, admits=frozenset({404})),
    "runs.log_lines": Expected(values={"run_id": 999}, admits=frozenset({404})),
    "runs.search_log": Expected(values={"run_id": 999}, admits=frozenset({404})),
    "runs.download_log": Expected(values={"run_id": 999}, admits=frozenset({404})),
    "runs.kill": Expected(OPERATORS, values={"run_id": 999}, admits=frozenset({404})),
    "runs.move": Expected(OPERATORS, values={"run_id": 999}, admits=frozenset({303, 404})),
    "runs.again": Expected(OPERATORS, values={"run_id": 999}, admits=frozenset({404})),
    "broadcasts.show": Expected(values={"run_id": 999}, admits=frozenset({404})),
    "broadcasts.kill": Expected(OPERATORS, values={"run_id": 999}, admits=frozenset({404})),
    "run_errors.show": Expected(),
    "run_errors.total": Expected(),
    "preferences.save_filter": Expected(admits=frozenset({400})),
    "preferences.forget_filter": Expected(admits=frozenset({400})),
    "preferences.set_favourite": Expected(values={"job_id": 999}, admits=frozenset({404})),
    "bulk_runs.ask": Expected(OPERATORS),
    "bulk_runs.start": Expected(OPERATORS, admits=frozenset({400})),
    "bulk_runs.show": Expected(OPERATORS, admits=frozenset({404})),
    "bulk_runs.resume": Expected(OPERATORS, admits=frozenset({400})),
    "bulk_jobs.ask": Expected(OPERATORS),
    "bulk_jobs.start": Expected(OPERATORS, admits=frozenset({400})),
    "bulk_jobs.show": Expected(OPERATORS, admits=frozenset({404})),
    "bulk_jobs.resume": Expected(OPERATORS, admits=frozenset({400})),
    "bulk_jobs.undo": Expected(OPERATORS, admits=frozenset({400})),
    "job_edits.ask": Expected(OPERATORS),
    "job_edits.preview": Expected(OPERATORS, admits=frozenset({400})),
    "job_edits.save": Expected(OPERATORS, admits=frozenset({400})),
    "job_edits.done": Expected(OPERATORS, admits=frozenset({404})),
    "job_edits.undo": Expected(OPERATORS, admits=frozenset({404})),
    "find.show": Expected(),
    "job_history.show": Expected(values={"job_id": 999}, admits=frozenset({404})),
    "timeline.show": Expected(),
    "clearing.show": Expected(OPERATORS),
    "clearing.start": Expected(OPERATORS, admits=frozenset({422})),
    "clearing.stop": Expected(OPERATORS),
    "glue.show": Expected(values={"job_id": 999}, admits=frozenset({404})),
    "glue.save": Expected(SCRIPTERS, values={"job_id": 999}, admits=frozenset({404})),
    "glue.version": Expected(values={"job_id": 999, "version_id": 1}, admits=frozenset({404})),
    "glue.compare": Expected(values={"job_id": 999}, admits=frozenset({404})),
    "glue.restore": Expected(SCRIPTERS, values={"job_id": 999}, admits=frozenset({404})),
    "glue.try_out": Expected(SCRIPTERS, values={"job_id": 999}, admits=frozenset({404})),
    "alarms.index": Expected(),
    "alarms.resend": Expected(OPERATORS),
    "alarms.dismiss": Expected(OPERATORS),
    "alarms.test_job": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "incidents.index": Expected(),
    "queue.index": Expected(),
    "incidents.ack": Expected(OPERATORS, values={"incident_id": 999}, admits=frozenset({404})),
    "ledger.index": Expected(),
    "backfills.index": Expected(),
    "backfills.show": Expected(values={"backfill_id": 999}, admits=frozenset({404})),
    "backfills.pause": Expected(OPERATORS, values={"backfill_id": 999}, admits=frozenset({404})),
    "backfills.resume": Expected(OPERATORS, values={"backfill_id": 999}, admits=frozenset({404})),
    "backfills.cancel": Expected(OPERATORS, values={"backfill_id": 999}, admits=frozenset({404})),
    "backfill_forms.ask": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "backfill_forms.preview": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "backfill_forms.make": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "backfill_forms.gaps": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "backfill_forms.fill": Expected(OPERATORS, values={"job_id": 999}, admits=frozenset({404})),
    "apps.index": Expected(),
    "apps.new": Expected(NOBODY_ELSE),
    "apps.create": Expected(NOBODY_ELSE, admits=frozenset({422})),
    "apps.edit": Expected(NOBODY_ELSE, values={"app_id": 1}),
    "apps.change": Expected(NOBODY_ELSE, values={"app_id": 1}),
    "apps.delete": Expected(NOBODY_ELSE, values={"app_id": 999}, admits=frozenset({404})),
    "executors.index": Expected(),
    "executors.show": Expected(values={"executor_id": 999}, admits=frozenset({404})),
    "executors.drain": Expected(OPERATORS, admits=frozenset({404})),
    "schedulers.index": Expected(),
    "conditions.show": Expected(),
    "pauses.ask": Expected(NOBODY_ELSE),
    "pauses.pause": Expected(NOBODY_ELSE, admits=frozenset({422})),
    "pauses.resume": Expected(NOBODY_ELSE),
    "pauses.ask_app": Expected(OPERATORS, values={"app_id": 999}, admits=frozenset({404})),
    "pauses.pause_app": Expected(OPERATORS, values={"app_id": 999}, admits=frozenset({404})),
    "pauses.resume_app": Expected(OPERATORS, values={"app_id": 999}, admits=frozenset({404})),
    "limits.index": Expected(),
    "limits.save": Expected(NOBODY_ELSE, admits=frozenset({422})),
    "limits.delete": Expected(NOBODY_ELSE, values={"limit": "none"}),
    "tokens.index": Expected(),
    "command_logins.show": Expected(),
    "command_logins.claim": Expected(admits=frozenset({422})),
    "command_logins.allow": Expected(),
    "command_logins.refuse": Expected(admits=frozenset({404})),
    "command_logins.done": Expected(),
    "tokens.create": Expected(admits=frozenset({422})),
    "tokens.revoke": Expected(values={"token_id": 999}, admits=frozenset({404})),
    "users.index": Expected(NOBODY_ELSE),
    "users.new": Expected(NOBODY_ELSE),
    "users.create": Expected(NOBODY_ELSE, admits=frozenset({422})),
    "users.show": Expected(NOBODY_ELSE, values={"user_id": 2}),
    "users.change_rights": Expected(NOBODY_ELSE, values={"user_id": 2}, admits=frozenset({422})),
    "users.reset_password": Expected(NOBODY_ELSE, values={"user_id": 2}, admits=frozenset({422})),
    "users.disable": Expected(NOBODY_ELSE, values={"user_id": 999}, admits=frozenset({404})),
    "users.enable": Expected(NOBODY_ELSE, values={"user_id": 999}, admits=frozenset({404})),
    "users.delete": Expected(NOBODY_ELSE, values={"user_id": 999}, admits=frozenset({404})),
    "health.healthz": Expected(anonymous=True, admits=frozenset({200, 503})),
    "health.metrics": Expected(frozenset(), admits=frozenset({200})),
}


def calls(app: Flask) -> list[tuple[str, str, str]]:
    """Return each endpoint with a path of its own and each method that it answers."""
    with app.test_request_context():
        return [
            (rule.endpoint, method, app.url_for(rule.endpoint, **TABLE[rule.endpoint].values))
            for rule in app.url_map.iter_rules()
            for method in sorted((rule.methods or set()) & {"GET", "POST"})
        ]


def call(visit: Visit, endpoint: str, method: str, path: str) -> int:
    if method == "GET":
        return visit.client.get(path).status_code
    return visit.post(path, TABLE[endpoint].form).status_code


def test_every_endpoint_stands_in_the_table_and_no_other(app: Flask) -> None:
    assert {rule.endpoint for rule in app.url_map.iter_rules()} == set(TABLE)


@pytest.mark.parametrize("name", sorted(USERS))
def test_a_role_may_call_what_the_table_says_and_nothing_else(app: Flask, name: str) -> None:
    for endpoint, method, path in calls(app):
        visit = signed_in(app, name)

        status = call(visit, endpoint, method, path)

        expected = TABLE[endpoint]
        may = expected.anonymous or name in expected.roles
        assert (status in expected.admits) if may else (status == 403), (endpoint, method, status)


def test_whoever_has_not_signed_in_is_sent_to_do_so(app: Flask) -> None:
    for endpoint, method, path in calls(app):
        visit = Visit(app)
        visit.get("/login")

        status = call(visit, endpoint, method, path)

        expected = TABLE[endpoint]
        if expected.anonymous:
            assert status in expected.admits, (endpoint, method, status)
        elif endpoint == "health.metrics":
            assert status == 403
        else:
            assert status == (303 if method == "GET" else 401), (endpoint, method, status)


def test_what_changes_something_is_never_a_get(app: Flask) -> None:
    admin = signed_in(app, "admin")

    for endpoint, method, path in calls(app):
        if method == "POST" and endpoint != "sign_in.login":
            assert admin.client.get(path).status_code == 405, endpoint


def test_a_route_without_a_right_keeps_the_console_from_starting(app: Flask) -> None:
    with pytest.raises(LookupError, match=r"routes without a right: dashboard\.show"):
        Gate(None, {name: Right.ANYONE for name in TABLE if name != "dashboard.show"}).guard(app)  # type: ignore[arg-type]
