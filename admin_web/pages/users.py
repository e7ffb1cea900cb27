"""The pages of users: who can sign in, and what they may do in which apps."""

from collections.abc import Callable
from typing import TypeVar

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from werkzeug.wrappers import Response

from warren.admin_web import exports
from warren.admin_web.exports import ListFiles
from warren.admin_web.forms.console_form import select_choices
from warren.admin_web.forms.users import NewUserForm, ResetForm, RightsForm, UserFilterForm
from warren.admin_web.language import labels
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.passwords import password_problem
from warren.scheduler.commands.users import UserCommands
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import users
from warren.sql.accounts.users import Rights, Role, UserFilter, rights_of
from warren.sql.models import User
from warren.sql.registry.apps import ids_by_name

Form = TypeVar("Form", bound=RightsForm)

LINES = 50


#: Messages for administrators.
_REFUSALS = {
    Code.OWN_USER: lazy_gettext("You cannot do this to your own user. Ask another administrator."),
    Code.LAST_ADMINISTRATOR: lazy_gettext(
        "This is the only administrator who can sign in. Create another one first."
    ),
}


class UserPages:
    """Users and their rights, for administrators."""

    name = "users"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/users", Right.ADMINISTER)
    def index(self) -> Response | str | tuple[str, int]:
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
        if exports.is_asked():
            return ListFiles(self._services).users(wanted)
        read = self._services.database.read
        rows = read(lambda session: users.filtered(session, wanted))
        return render_template(
            "pages/users.html",
            form=form,
            rows=rows[:LINES],
            apps=self._apps(),
            next=rows[LINES - 1].user.name if len(rows) > LINES else None,
            rights_of=rights_of,
        )

    @route("/users/new", Right.ADMINISTER)
    def new(self) -> str:
        """Show the form of a new user."""
        return self._new_page(self._with_apps(NewUserForm()))

    @route("/users/add", Right.ADMINISTER, methods=("POST",), form="users.new")
    def create(self) -> Response | tuple[str, int]:
        """Create a user with a temporary password."""
        form = self._with_apps(NewUserForm(request.form))
        name, password = form.username.data or "", form.password.data or ""
        wanted = self._rights(form) if form.validate() else None
        if wanted is None or not _is_acceptable(form, name, password):
            return self._new_page(form), 422
        try:
            self._commands.add(name, password, wanted, must_change=True)
        except Problem as problem:
            if problem.code is not Code.USER_NAME_TAKEN:
                raise
            form.username.errors = (gettext("This user name is taken."),)
            return self._new_page(form), 422
        flash(gettext("User %(name)s created.", name=name))
        return redirect(url_for("users.index"), 303)

    @route("/users/<id:user_id>", Right.ADMINISTER)
    def show(self, user_id: int) -> str:
        """Show a user and the forms to change it."""
        user = self._find(user_id)
        return self._page(user, self._rights_form(user), ResetForm())

    @route("/users/<id:user_id>/rights", Right.ADMINISTER, methods=("POST",))
    def change_rights(self, user_id: int) -> Response | tuple[str, int]:
        """Change a user's rights; all sign-ins of the user end."""
        user = self._find(user_id)
        form = self._with_apps(RightsForm(request.form))
        wanted = self._rights(form) if form.validate() else None
        if wanted is None:
            return self._page(user, form, ResetForm()), 422
        commands = self._commands
        refused = self._refused(user, lambda: commands.set_rights(user_id, wanted), form)
        if refused:
            return refused
        flash(gettext("Permissions of %(name)s updated.", name=user.name))
        return redirect(url_for("users.show", user_id=user_id), 303)

    @route("/users/<id:user_id>/password", Right.ADMINISTER, methods=("POST",))
    def reset_password(self, user_id: int) -> Response | tuple[str, int]:
        """Set a user's temporary password; all sign-ins of the user end."""
        user = self._find(user_id)
        form = ResetForm(request.form)
        password = form.password.data or ""
        if user.name == visitor().name:
            form.add_error(gettext("Change your own password on your account page."))
        elif form.validate() and _is_acceptable(form, user.name, password):
            self._commands.set_password(user_id, password, must_change=True)
            flash(gettext("Temporary password set for %(name)s.", name=user.name))
            return redirect(url_for("users.show", user_id=user_id), 303)
        return self._page(user, self._rights_form(user), form), 422

    @route("/users/<id:user_id>/delete", Right.ADMINISTER, methods=("POST",))
    def delete(self, user_id: int) -> Response | tuple[str, int]:
        """Delete a user; all sign-ins of the user end."""
        user, commands = self._find(user_id), self._commands
        refused = self._refused(user, lambda: commands.delete(user_id))
        if refused:
            return refused
        flash(gettext("User %(name)s deleted.", name=user.name))
        return redirect(url_for("users.index"), 303)

    @route("/users/<id:user_id>/disable", Right.ADMINISTER, methods=("POST",))
    def disable(self, user_id: int) -> Response | tuple[str, int]:
        """Disable a user; all sign-ins of the user end."""
        user, commands = self._find(user_id), self._commands
        refused = self._refused(user, lambda: commands.disable(user_id))
        if refused:
            return refused
        flash(gettext("User %(name)s disabled.", name=user.name))
        return redirect(url_for("users.show", user_id=user_id), 303)

    @route("/users/<id:user_id>/enable", Right.ADMINISTER, methods=("POST",))
    def enable(self, user_id: int) -> Response | tuple[str, int]:
        """Let a user sign in again."""
        user, commands = self._find(user_id), self._commands
        refused = self._refused(user, lambda: commands.enable(user_id))
        if refused:
            return refused
        flash(gettext("User %(name)s enabled.", name=user.name))
        return redirect(url_for("users.show", user_id=user_id), 303)

    @property
    def _commands(self) -> UserCommands:
        return self._services.commands(visitor().actor).users

    def _refused(
        self, user: User, act: Callable[[], None], form: RightsForm | None = None
    ) -> tuple[str, int] | None:
        """Act on a user; return None, or the page that says why it was refused."""
        try:
            act()
        except Problem as problem:
            if problem.code not in _REFUSALS:
                raise
            form = form or self._rights_form(user)
            form.add_error(str(_REFUSALS[problem.code]))
            return self._page(user, form, ResetForm()), 409
        return None

    def _rights(self, form: RightsForm) -> Rights | None:
        """Return the rights in a valid form; otherwise None, and a field says why."""
        role = Role[form.role.data.upper()]
        if role is Role.ADMINISTRATOR:
            return Rights(role=role)
        if not form.apps.data:
            form.apps.errors = (gettext("Choose at least one app."),)
            return None
        if role is Role.VIEWER and form.may_edit_glue.data:
            form.may_edit_glue.errors = (
                gettext("Viewers cannot edit anything, including scripts."),
            )
            return None
        chosen = [app_id for app_id, name in self._apps().items() if name in form.apps.data]
        return Rights(role=role, app_ids=tuple(chosen), may_edit_glue=form.may_edit_glue.data)

    def _find(self, user_id: int) -> User:
        return self._services.database.read(lambda session: users.by_id(session, user_id))

    def _apps(self) -> dict[int, str]:
        ids = self._services.database.read(ids_by_name)
        return {app_id: name for name, app_id in ids.items()}

    def _with_apps(self, form: Form) -> Form:
        form.apps.choices = select_choices((name, name) for name in self._apps().values())
        return form

    def _rights_form(self, user: User) -> RightsForm:
        rights, names = rights_of(user), self._apps()
        return self._with_apps(
            RightsForm(
                data={
                    "role": rights.role.name.lower(),
                    "apps": [names[app_id_] for app_id_ in rights.app_ids if app_id_ in names],
                    "may_edit_glue": rights.may_edit_glue,
                }
            )
        )

    def _new_page(self, form: NewUserForm) -> str:
        return render_template("pages/users_new.html", form=form)

    def _page(self, user: User, rights: RightsForm, reset: ResetForm) -> str:
        return render_template("pages/users_show.html", user=user, rights=rights, reset=reset)


def _is_acceptable(form: NewUserForm | ResetForm, name: str, password: str) -> bool:
    flaw = password_problem(password, name)
    if flaw is not None:
        form.password.errors = (labels.PASSWORD_FLAW[flaw],)
    return flaw is None
