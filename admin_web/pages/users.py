"""Users as pages: who may sign in, what they may do and with which apps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from admin_web import words
from admin_web.offers import offered
from admin_web.parts import Parts
from admin_web.routes import route
from admin_web.user_forms import NewUserForm, ResetForm, RightsForm, UserFilterForm
from admin_web.visitors import Right, visitor
from scheduler.passwords import flaw_of
from scheduler.user_commands import LastAdministrator, OwnUser
from sql import user_accounts
from sql.errors import Conflict
from sql.models import User
from sql.user_accounts import UserFilter
from sql.users import Role, rights_of

Form = TypeVar("Form", bound=RightsForm)

LINES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Rights as a form asks for them."""

    role: Role
    app_names: list[str]
    may_edit_glue: bool


class UserPages:
    """For administrators: who there is, and what they may do."""

    name = "users"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @route("/users", Right.ADMINISTER)
    def index(self) -> str | tuple[str, int]:
        """Show the users by name."""
        form = UserFilterForm(request.args)
        if not form.validate():
            return render_template("pages/users.html", form=form, rows=[], apps={}, next=None), 422
        wanted = UserFilter(
            name=form.name.data or None,
            role=Role[form.role.data.upper()] if form.role.data else None,
            after=request.args.get("after", "")[:50],
            limit=LINES + 1,
        )
        read = self._parts.database.read
        rows = read(lambda session: user_accounts.listing(session, wanted))
        return render_template(
            "pages/users.html",
            form=form,
            rows=rows[:LINES],
            apps=self._apps(),
            next=rows[LINES - 1].User.username if len(rows) > LINES else None,
            rights_of=rights_of,
        )

    @route("/users/new", Right.ADMINISTER)
    def new(self) -> str:
        """Ask for a user who is not there yet."""
        return self._new_page(self._with_apps(NewUserForm()))

    @route("/users/add", Right.ADMINISTER, methods=("POST",))
    def create(self) -> Response | tuple[str, int]:
        """Make a user; the first password is good for one sign-in."""
        form = self._with_apps(NewUserForm(request.form))
        name, password = form.username.data or "", form.password.data or ""
        wanted = _rights(form) if form.validate() else None
        if wanted is None or not _is_fit(form, name, password):
            return self._new_page(form), 422
        try:
            self._parts.user_commands(visitor()).add(
                name,
                password,
                role=wanted.role,
                app_names=wanted.app_names,
                may_edit_glue=wanted.may_edit_glue,
                must_change=True,
            )
        except Conflict:
            form.username.errors = (gettext("There is a user of this name already."),)
            return self._new_page(form), 422
        flash(gettext("%(name)s may sign in now.", name=name))
        return redirect(url_for("users.index"), 303)

    @route("/users/<id:user_id>", Right.ADMINISTER)
    def show(self, user_id: int) -> str:
        """Show one user, and what of it can be changed."""
        user = self._find(user_id)
        return self._page(user, self._rights_form(user), ResetForm())

    @route("/users/<id:user_id>/rights", Right.ADMINISTER, methods=("POST",))
    def change_rights(self, user_id: int) -> Response | tuple[str, int]:
        """Give a user other rights; every sign-in of the user ends."""
        user = self._find(user_id)
        form = self._with_apps(RightsForm(request.form))
        wanted = _rights(form) if form.validate() else None
        if wanted is None:
            return self._page(user, form, ResetForm()), 422
        commands = self._parts.user_commands(visitor())
        refusal = _refusal(
            lambda: commands.set_rights(
                user.username,
                role=wanted.role,
                app_names=wanted.app_names,
                may_edit_glue=wanted.may_edit_glue,
            )
        )
        if refusal:
            form.complain(refusal)
            return self._page(user, form, ResetForm()), 409
        flash(gettext("The rights of %(name)s have changed.", name=user.username))
        return redirect(url_for("users.show", user_id=user_id), 303)

    @route("/users/<id:user_id>/password", Right.ADMINISTER, methods=("POST",))
    def reset_password(self, user_id: int) -> Response | tuple[str, int]:
        """Give a user a password that is good for one sign-in; every sign-in of the user ends."""
        user = self._find(user_id)
        form = ResetForm(request.form)
        password = form.password.data or ""
        if user.username == visitor().name:
            form.complain(gettext("Change your own password on the page of your account."))
        elif form.validate() and _is_fit(form, user.username, password):
            commands = self._parts.user_commands(visitor())
            commands.set_password(user.username, password, must_change=True)
            flash(gettext("%(name)s has a new password.", name=user.username))
            return redirect(url_for("users.show", user_id=user_id), 303)
        return self._page(user, self._rights_form(user), form), 422

    @route("/users/<id:user_id>/delete", Right.ADMINISTER, methods=("POST",))
    def delete(self, user_id: int) -> Response | tuple[str, int]:
        """Remove a user; every sign-in of the user ends."""
        user, commands = self._find(user_id), self._parts.user_commands(visitor())
        refused = self._refused(user, commands.delete)
        if refused:
            return refused
        flash(gettext("%(name)s is deleted.", name=user.username))
        return redirect(url_for("users.index"), 303)

    @route("/users/<id:user_id>/disable", Right.ADMINISTER, methods=("POST",))
    def disable(self, user_id: int) -> Response | tuple[str, int]:
        """Let a user sign in no longer; every sign-in of the user ends."""
        user, commands = self._find(user_id), self._parts.user_commands(visitor())
        refused = self._refused(user, commands.disable)
        if refused:
            return refused
        flash(gettext("%(name)s may sign in no longer.", name=user.username))
        return redirect(url_for("users.show", user_id=user_id), 303)

    @route("/users/<id:user_id>/enable", Right.ADMINISTER, methods=("POST",))
    def enable(self, user_id: int) -> Response | tuple[str, int]:
        """Let a user sign in again."""
        user, commands = self._find(user_id), self._parts.user_commands(visitor())
        refused = self._refused(user, commands.enable)
        if refused:
            return refused
        flash(gettext("%(name)s may sign in again.", name=user.username))
        return redirect(url_for("users.show", user_id=user_id), 303)

    def _refused(self, user: User, act: Callable[[str], None]) -> tuple[str, int] | None:
        """Do it to a user; return the page that says why not, None when it was done."""
        refusal = _refusal(lambda: act(user.username))
        if not refusal:
            return None
        form = self._rights_form(user)
        form.complain(refusal)
        return self._page(user, form, ResetForm()), 409

    def _find(self, user_id: int) -> User:
        return self._parts.database.read(lambda session: user_accounts.by_id(session, user_id))

    def _apps(self) -> dict[int, str]:
        return self._parts.database.read(user_accounts.app_names)

    def _with_apps(self, form: Form) -> Form:
        form.apps.choices = offered((name, name) for name in self._apps().values())
        return form

    def _rights_form(self, user: User) -> RightsForm:
        rights, names = rights_of(user), self._apps()
        return self._with_apps(
            RightsForm(
                data={
                    "role": rights.role.name.lower(),
                    "apps": [names[one] for one in rights.app_ids if one in names],
                    "may_edit_glue": rights.may_edit_glue,
                }
            )
        )

    def _new_page(self, form: NewUserForm) -> str:
        return render_template("pages/users_new.html", form=form)

    def _page(self, user: User, rights: RightsForm, reset: ResetForm) -> str:
        return render_template("pages/users_show.html", user=user, rights=rights, reset=reset)


def _rights(form: RightsForm) -> Wanted | None:
    """Return what a valid form asks for; None, with the reason beside its field, when it cannot."""
    role = Role[form.role.data.upper()]
    if role is Role.ADMINISTRATOR:
        return Wanted(role=role, app_names=[], may_edit_glue=True)
    if not form.apps.data:
        form.apps.errors = (gettext("Choose one app or more."),)
        return None
    if role is Role.VIEWER and form.may_edit_glue.data:
        form.may_edit_glue.errors = (gettext("A viewer changes nothing, so no scripts either."),)
        return None
    return Wanted(role=role, app_names=form.apps.data, may_edit_glue=form.may_edit_glue.data)


def _is_fit(form: NewUserForm | ResetForm, name: str, password: str) -> bool:
    flaw = flaw_of(password, name)
    if flaw is not None:
        form.password.errors = (words.PASSWORD_FLAW[flaw],)
    return flaw is None


def _refusal(act: Callable[[], None]) -> str:
    """Do it; return why it was refused, empty when it was done."""
    try:
        act()
    except OwnUser:
        return str(gettext("You cannot do this to your own user. Ask another administrator."))
    except LastAdministrator:
        return str(
            gettext("This is the only administrator who can sign in. Make another one first.")
        )
    return ""
