"""Apps: the groups of executors that jobs belong to."""

from typing import Any
from urllib.parse import quote

import msgspec
from sqlalchemy.orm import Session

from warren.admin_web.api.bodies import FieldErrors, refuse
from warren.admin_web.api.endpoint import BASE, Call, Reply, endpoint, serves
from warren.admin_web.api.paging import instant_ms, page, place_of
from warren.admin_web.api.problem_answers import Refusal
from warren.admin_web.services import ApiServices
from warren.resources import cluster as operations
from warren.resources.cluster import (
    AppAlarm,
    AppBody,
    AppFacts,
    AppWebhook,
    Changed,
    Paused,
    PauseFacts,
)
from warren.resources.operation import PageQuery, Scope, page_type
from warren.resources.spelling import nearest
from warren.scheduler.alarms.addresses import without_secret
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.commands.cluster_commands import NEVER, ClusterCommands, PauseOutcome
from warren.scheduler.jobs.records import app_spec
from warren.scheduler.jobs.spec import AppSpec
from warren.scheduler.views.process_view import pause_facts
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.listings import app_listing
from warren.sql.models import App
from warren.sql.registry import pauses
from warren.sql.registry.apps import ids_by_name
from warren.sql.registry.pauses import EVERY_APP, ShownPause

AppPage = page_type(AppFacts)


def pause(commands: ClusterCommands, call: Call, app_id: int = EVERY_APP) -> Paused:
    """Pause an app, or the whole cluster, as the call's body says."""
    outcome = commands.pause(app_id, reason=call.body.reason, until_ms=_end_ms(call.body.until))
    return Paused(changed=outcome is not PauseOutcome.ALREADY, outcome=outcome)


def _end_ms(text: str | msgspec.UnsetType | None) -> int | None:
    if text is msgspec.UNSET:
        return None
    try:
        end_ms = instant_ms("until", text)
    except Refusal as refusal:
        errors = [{"pointer": "/until", "detail": refusal.detail}]
        raise Refusal(422, refusal.detail, errors=errors) from refusal
    return NEVER if end_ms is None else end_ms


def pause_answer(shown_pause: ShownPause | None) -> PauseFacts | None:
    """Return the answer about an app's pause; None if it is not paused."""
    return PauseFacts(**pause_facts(shown_pause)) if shown_pause else None


class AppEndpoints:
    """The apps that a token may see."""

    name = "apps"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint("GET", "/apps", Scope.READ, AppPage, query=PageQuery)
    def index(self, call: Call) -> Any:
        """List apps by name."""
        after = place_of(call.query, str) or ""
        rows, paused = self._services.database.read(
            lambda session: (
                app_listing.listing(
                    session, call.actor.app_ids, after=after, limit=call.query.limit + 1
                ),
                self._pauses(session, call),
            )
        )
        return page(
            AppPage,
            call.query,
            rows,
            lambda row: _answer(call, *row, paused.get(row[0].id)),
            lambda row: row[0].name,
        )

    @endpoint("GET", "/apps/<app>", Scope.READ, AppFacts)
    def show(self, call: Call, app: str) -> AppFacts:
        """Show an app."""
        app_id = self._id(call, app)
        app_row, usage, paused = self._services.database.read(
            lambda session: (
                app_listing.by_id(session, app_id),
                app_listing.usage(session, app_id, names=0),
                self._pauses(session, call),
            )
        )
        return _answer(call, app_row, usage.job_count, paused.get(app_id))

    @endpoint(
        "PUT", "/apps/<app>", Scope.ADMIN, AppFacts, body=AppBody, other_answers={201: "created"}
    )
    def put(self, call: Call, app: str) -> Reply:
        """Create an app, or replace its settings."""
        if call.body.name not in (None, app):
            wrong = FieldErrors()
            wrong.add("/name", f"expected {app[:100]!r} as in the path")
            refuse(wrong)
        spec, commands = app_spec_of(app, call.body), self._services.commands(call.actor).apps
        try:
            app_id = self._id(call, app)
        except NotFound:
            commands.add(spec)
            return self._created(call, app)
        commands.change(app_id, spec)
        return Reply(value=self.show(call, app))

    @endpoint("DELETE", "/apps/<app>", Scope.ADMIN, None, status=204)
    def delete(self, call: Call, app: str) -> None:
        """Delete an app that is no longer used."""
        self._services.commands(call.actor).apps.delete(self._id(call, app))

    @serves(operations.add_app)
    def add(self, call: Call) -> Reply:
        name = call.body.name
        self._services.commands(call.actor).apps.add(AppSpec(name=name, title=call.body.title))
        return self._created(call, name)

    @serves(operations.pause_app)
    def pause(self, call: Call, app: str) -> Paused:
        commands = self._services.commands(call.actor).cluster
        return pause(commands, call, self._id(call, app))

    @serves(operations.resume_app)
    def resume(self, call: Call, app: str) -> Changed:
        commands = self._services.commands(call.actor).cluster
        return Changed(changed=commands.resume(self._id(call, app)))

    def _created(self, call: Call, app: str) -> Reply:
        headers = {"Location": f"{BASE}/apps/{quote(app, safe='')}"}
        return Reply(value=self.show(call, app), status=201, headers=headers)

    def _id(self, call: Call, app: str) -> int:
        return app_id_of(self._services, call, app)

    def _pauses(self, session: Session, call: Call) -> dict[int, ShownPause]:
        now_ms = self._services.now_ms()
        return {
            pause.app_id: pause for pause in pauses.in_force(session, now_ms, call.actor.app_ids)
        }


def app_id_of(services: ApiServices, call: Call, app: str) -> int:
    """Return the id of an app that a token may see.

    Raises:
        NotFound: there is no such app.

    """
    known = services.database.read(lambda session: ids_by_name(session, call.actor.app_ids))
    if app not in known:
        near = nearest(app, known) or None
        raise NotFound(LookupFailure.NO_APP_NAMED, name=app[:100], near=near)
    return known[app]


def asked_app_ids(services: ApiServices, call: Call, app: str | None) -> frozenset[int] | None:
    """Return the id of the app that a list is asked for, else those the token may see; None = all.

    Raises:
        NotFound: there is no such app.

    """
    return call.actor.app_ids if app is None else frozenset({app_id_of(services, call, app)})


def app_spec_of(app: str, body: AppBody) -> AppSpec:
    """Return the app that a body describes."""
    alarm, webhook = body.alarm or AppAlarm(), body.webhook or AppWebhook()
    return AppSpec(
        name=app,
        title=body.title,
        addresses=tuple(body.addresses),
        route=body.route,
        alarm=AlarmTargets(
            emails=tuple(alarm.emails),
            webhook=alarm.webhook,
            style=alarm.style,
            secret=alarm.secret or "",
        ),
        webhook=RunWebhook(url=webhook.url, when=webhook.when),
    )


def _answer(call: Call, app: App, jobs: int, pause: ShownPause | None) -> AppFacts:
    spec = app_spec(app)
    urls = [spec.alarm.webhook, spec.webhook.url]
    if not call.may(Scope.ADMIN):
        urls = [url and without_secret(url) for url in urls]
    alarm = AppAlarm(emails=[*spec.alarm.emails], webhook=urls[0], style=spec.alarm.style)
    webhook = AppWebhook(url=urls[1], when=spec.webhook.when)
    return AppFacts(
        id=app.id,
        name=app.name,
        title=app.title,
        addresses=[*spec.addresses],
        route=spec.route,
        alarm=alarm if spec.alarm else None,
        webhook=webhook if spec.webhook else None,
        jobs=jobs,
        pause=pause_answer(pause),
    )
