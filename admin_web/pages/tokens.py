"""Tokens of programs: one's own, or for administrators everybody's."""

from typing import Any

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from warren.admin_web import exports
from warren.admin_web.forms.users import TokenForm
from warren.admin_web.language import labels
from warren.admin_web.language.labels import problem_text
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.tokens.scopes import RIGHTS, Scope
from warren.scheduler.commands.tokens.token_commands import TokenSpec
from warren.scheduler.problems import Problem
from warren.scheduler.views.to_json import TokenView, token_view
from warren.sql.accounts import tokens
from warren.sql.listings import job_search
from warren.sql.registry.apps import ids_by_name

#: Stands for an app that was just deleted, and is refused. No app at all would mean every app.
NO_APP_ID = 0


class TokenPages:
    """The tokens that programs use for the API."""

    name = "tokens"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/tokens", Right.VIEW)
    def index(self) -> str | Response:
        """Show the tokens by name, and the form of a new one."""
        if exports.is_asked():
            rows = self._services.database.read(lambda session: self._rows(session, visitor()))
            return exports.views("tokens", TokenView, [view for _, view in rows])
        return self._page(self._form())

    @route("/tokens/add", Right.VIEW, methods=("POST",))
    def create(self) -> str | tuple[str, int]:
        """Create a token for the visitor and show it, once."""
        form, known = self._form(request.form), visitor()
        if not form.validate():
            return self._page(form), 422
        apps = self._apps()
        spec = TokenSpec(
            name=form.token_name.data or "",
            owner_id=known.user_id,
            scopes=[Scope(word) for word in form.scopes.data or ()],
            app_ids=[apps.get(name, NO_APP_ID) for name in form.apps.data or ()],
            days=form.days.data or 0,
        )
        try:
            text = self._services.commands(known.actor).tokens.add(spec)
        except Problem as problem:
            form.token_name.errors = (problem_text(problem),)
            return self._page(form), 422
        return self._page(self._form(), text)

    @route("/tokens/<id:token_id>/revoke", Right.VIEW, methods=("POST",))
    def revoke(self, token_id: int) -> Response:
        """Revoke a token; it is invalid from the next request on."""
        self._services.commands(visitor().actor).tokens.revoke(token_id)
        flash(gettext("Token revoked."))
        return redirect(url_for("tokens.index"), 303)

    def _page(self, form: TokenForm, fresh: str = "") -> str:
        rows = self._services.database.read(lambda session: self._rows(session, visitor()))
        return render_template("pages/tokens.html", form=form, rows=rows, fresh=fresh)

    def _rows(self, session: Session, known: Visitor) -> list[tuple[int, TokenView]]:
        everybodys = known.actor.may(Right.ADMINISTER)
        listed = tokens.listing(session, user_ids=None if everybodys else [known.user_id])
        names = {app_id: name for name, app_id in ids_by_name(session).items()}
        job_ids = {id_ for row in listed for id_ in tokens.ids_of(row.token.jobs) or ()}
        jobs = job_search.names(session, job_ids, known.app_ids)
        now_ms = self._services.now_ms()
        return [
            (row.token.id, token_view(row, now_ms=now_ms, apps=names, jobs=jobs)) for row in listed
        ]

    def _form(self, given: Any = None) -> TokenForm:
        known, form = visitor(), TokenForm(given)
        form.scopes.choices = [
            (scope.value, labels.SCOPE[scope.value])
            for scope in Scope
            if known.actor.may(RIGHTS[scope])
        ]
        form.apps.choices = [(name, name) for name in self._apps()]
        return form

    def _apps(self) -> dict[str, int]:
        known = visitor()
        return self._services.database.read(lambda session: ids_by_name(session, known.app_ids))
