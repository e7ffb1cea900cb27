"""The board: what is wrong, since when and why."""

from warren.admin_web.api.endpoint import Call, serves
from warren.admin_web.api.endpoints.apps import app_id_of
from warren.admin_web.api.endpoints.jobs import job_id_of
from warren.admin_web.api.paging import body_instant_ms
from warren.admin_web.services import ApiServices
from warren.resources import board as operations
from warren.resources.board import Board, JobMute
from warren.resources.instant import Instant
from warren.scheduler.commands.alarm_commands import MAX_DAYS
from warren.scheduler.problems import Code, Problem
from warren.scheduler.views import board_view


class BoardEndpoints:
    """How the jobs of the token's apps are doing."""

    name = "board"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @serves(operations.show_board)
    def show(self, call: Call) -> Board:
        app, now_ms = call.query.app, self._services.now_ms()
        app_id = None if app is None else app_id_of(self._services, call, app)
        return self._services.database.read(
            lambda session: board_view.read(session, call.actor, now_ms=now_ms, app_id=app_id)
        ).board

    @serves(operations.mute_job)
    def mute(self, call: Call, app: str, name: str) -> JobMute:
        job_id = job_id_of(self._services, call, app, name)
        until_ms = body_instant_ms("/until", call.body.until)
        if until_ms is None:
            raise Problem(Code.MUTE_END, "until", most=MAX_DAYS, got="null")
        self._services.commands(call.actor).mutes.mute(
            job_id, until_ms=until_ms, why=call.body.why, silent=call.body.silent
        )
        return JobMute(
            by=call.actor.who,
            why=call.body.why,
            until=Instant.of(until_ms),
            silent=call.body.silent,
        )

    @serves(operations.unmute_job)
    def unmute(self, call: Call, app: str, name: str) -> None:
        job_id = job_id_of(self._services, call, app, name)
        self._services.commands(call.actor).mutes.unmute(job_id)
