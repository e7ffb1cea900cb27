"""The board: what is wrong, since when and why."""

from warren.admin_web.api.endpoint import Call, serves
from warren.admin_web.api.endpoints.apps import app_id_of
from warren.admin_web.services import ApiServices
from warren.resources import board as operations
from warren.resources.board import Board
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
