"""The pages and forms of users and their tokens: who may sign in, and do what in which apps."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import LazyString, gettext, lazy_gettext
from werkzeug.wrappers import Response
from wtforms import (
    BooleanField,
    Field,
    IntegerField,
    PasswordField,
    RadioField,
    SelectField,
    SelectMultipleField,
    StringField,
    ValidationError,
)
from wtforms.validators import EqualTo, InputRequired, Length, NumberRange, Optional, Regexp

from warren.admin_web import exports
from warren.admin_web.exports import ListFiles
from warren.admin_web.forms.console_form import ALL, REQUIRED, ConsoleForm, select_choices
from warren.admin_web.language import labels
from warren.admin_web.language.labels import PASSWORD_FLAW, problem_text
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.resources.accounts import Token
from warren.resources.operation import Scope
from warren.scheduler.actor import Right
from warren.scheduler.commands import account_commands
from warren.scheduler.commands.account_commands import (
    DEFAULT_DAYS,
    MAX_DAYS,
    RIGHTS,
    USER_NAME_PATTERN,
    TokenSpec,
    UserCommands,
)
from warren.scheduler.commands.passwords import MAX_LENGTH, MIN_LENGTH, password_problem
from warren.scheduler.problems import Code, Problem, Refused
from warren.scheduler.views.account_view import read_tokens, user_view
from warren.sql.accounts import identities, users
from warren.sql.accounts.users import Rights, Role, UserFilter, rights_of
from warren.sql.models import User
from warren.sql.registry.apps import ids_by_name

#: The rule for user names, in the form of a new user and at sign-in.
USER_NAME = Regexp(
    rf"^{USER_NAME_PATTERN}\Z",
    message=lazy_gettext("A name has 4 to 50 letters, digits, dots, hyphens or underscores."),
)
#: The rule for new passwords.
PASSWORD_LENGTH = Length(MIN_LENGTH, MAX_LENGTH, PASSWORD_FLAW[Code.WEAK_LENGTH])
#: Longer passwords are not even hashed.
_TYPED = Length(max=MAX_LENGTH, message=lazy_gettext("Too long."))


class SignInForm(ConsoleForm):
    """Asks for name and password; invalid names are neither counted nor looked up."""

    username = StringField(lazy_gettext("Name"), [InputRequired(REQUIRED), USER_NAME])
    password = PasswordField(lazy_gettext("Password"), [InputRequired(REQUIRED), _TYPED])


class PasswordForm(ConsoleForm):
    """Changes one's own password."""

    present = PasswordField(lazy_gettext("Current password"), [InputRequired(REQUIRED), _TYPED])
    fresh = PasswordField(
        lazy_gettext("New password"),
        [
            InputRequired(REQUIRED),
            PASSWORD_LENGTH,
        ],
    )
    again = PasswordField(
        lazy_gettext("Repeat new password"),
        [
            InputRequired(REQUIRED),
            EqualTo("fresh", lazy_gettext("The passwords do not match.")),
        ],
    )


class PreferencesForm(ConsoleForm):
    """Language, time zone and theme; the view sets the choices."""

    language = SelectField(lazy_gettext("Language"), validate_choice=True)
    timezone = SelectField(lazy_gettext("Time zone"), validate_choice=True)
    theme = SelectField(lazy_gettext("Theme"), validate_choice=True)


#: Sets of scopes for what tokens are mostly for, by name, with their labels.
TOKEN_SETS: Mapping[str, tuple[LazyString, frozenset[Scope]]] = {
    "watch": (
        lazy_gettext("Watch: read everything, logs too"),
        frozenset({Scope.READ, Scope.LOGS}),
    ),
    "trigger": (
        lazy_gettext("Trigger: run jobs and read their results"),
        frozenset({Scope.READ, Scope.LOGS, Scope.TRIGGER}),
    ),
    "operate": (
        lazy_gettext("Operate: also start, stop, kill, drain and pause apps"),
        frozenset({Scope.READ, Scope.LOGS, Scope.TRIGGER, Scope.OPERATE}),
    ),
    "deploy": (
        lazy_gettext("Deploy: read and apply job files"),
        frozenset({Scope.READ, Scope.WRITE}),
    ),
}
#: The choice of single scopes instead of a set.
SINGLE_SCOPES = "scopes"


class TokenForm(ConsoleForm):
    """A new token; the scopes and apps to choose from are those of its owner."""

    token_name = StringField(
        lazy_gettext("Name"),
        [
            InputRequired(REQUIRED),
            Regexp(
                rf"^{account_commands.NAME_PATTERN}\Z",
                message=lazy_gettext(
                    "A name has up to 50 letters, digits, dots, hyphens or underscores."
                ),
            ),
        ],
    )
    rights = RadioField(lazy_gettext("What it is for"), default=SINGLE_SCOPES, choices=[])
    scopes = SelectMultipleField(lazy_gettext("Scopes"), choices=[])
    apps = SelectMultipleField(lazy_gettext("Apps"), choices=[])
    days = IntegerField(
        lazy_gettext("Valid for (days)"),
        [
            InputRequired(REQUIRED),
            NumberRange(1, MAX_DAYS, lazy_gettext("A token is valid for 1 to 366 days.")),
        ],
        default=DEFAULT_DAYS,
    )

    @property
    def chosen_scopes(self) -> list[Scope]:
        """The scopes of the chosen set, or those that were chosen one by one."""
        if self.rights.data in TOKEN_SETS:
            _, scopes = TOKEN_SETS[self.rights.data]
            return [scope for scope in Scope if scope in scopes]
        return [Scope(word) for word in self.scopes.data or ()]

    def validate_scopes(self, _field: Field) -> None:
        """Refuse a token that may do nothing."""
        if not self.chosen_scopes:
            raise ValidationError(gettext("Choose at least one."))


#: Viewer first, so that a careless click grants little.
_ROLES = [
    (role.name.lower(), labels.ROLE[role.name.lower()])
    for role in (Role.VIEWER, Role.OPERATOR, Role.ADMINISTRATOR)
]


class UserFilterForm(ConsoleForm):
    name = StringField(lazy_gettext("Name"), [Optional(), Length(max=50)])
    role = SelectField(
        lazy_gettext("Role"),
        choices=select_choices([ALL, *_ROLES]),
        default="",
    )


class RightsForm(ConsoleForm):
    """What a user may do; the view sets the choices of apps."""

    role = SelectField(
        lazy_gettext("Role"),
        choices=select_choices(_ROLES),
        default="viewer",
        validate_choice=True,
    )
    apps = SelectMultipleField(lazy_gettext("Apps"), choices=[])
    may_edit_glue = BooleanField(lazy_gettext("Can edit scripts"))


class NewUserForm(RightsForm):
    """A new user's rights, with a name and a temporary password."""

    username = StringField(
        lazy_gettext("Name"),
        [InputRequired(REQUIRED), USER_NAME],
    )
    password = PasswordField(
        lazy_gettext("Temporary password"), [InputRequired(REQUIRED), PASSWORD_LENGTH]
    )


class ResetForm(ConsoleForm):
    """A new password for another user."""

    password = PasswordField(
        lazy_gettext("New password"), [InputRequired(REQUIRED), PASSWORD_LENGTH]
    )


Form = TypeVar("Form", bound=RightsForm)

LINES = 50


#: Messages for administrators.
_REFUSALS = {
    Code.OWN_USER: lazy_gettext("You cannot do this to your own user. Ask another administrator."),
    Code.LAST_ADMINISTRATOR: lazy_gettext(
        "This is the only administrator who can sign in. Create another one first."
    ),
    Code.RIGHTS_BY_RULES: lazy_gettext("The permissions of this user come from rules for groups."),
}


def read_rights(form: RightsForm, apps: Mapping[int, str]) -> Rights | None:
    """Return the rights in a form with a valid role; otherwise None, and fields say why.

    `apps` are the names of all apps by id.
    """
    role = Role[form.role.data.upper()]
    if role is Role.ADMINISTRATOR:
        return Rights(role=role, may_edit_glue=True)
    if not form.apps.data:
        form.apps.errors = (gettext("Choose at least one app."),)
    if role is Role.VIEWER and form.may_edit_glue.data:
        form.may_edit_glue.errors = (gettext("Viewers cannot edit anything, including scripts."),)
    if form.apps.errors or form.may_edit_glue.errors:
        return None
    chosen = [app_id for app_id, name in apps.items() if name in (form.apps.data or ())]
    return Rights(role=role, app_ids=tuple(chosen), may_edit_glue=form.may_edit_glue.data)


class UserPages:
    """Users and their rights, for administrators."""

    name = "users"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/users", Right.ADMINISTER)
    def index(self) -> Response | str | tuple[str, int]:
        form = UserFilterForm(request.args)
        if not form.validate():
            return render_template("pages/users.html", form=form, rows=[], next=None), 422
        wanted = UserFilter(
            name=form.name.data or None,
            role=Role[form.role.data.upper()] if form.role.data else None,
            after=request.args.get("after", "")[:50],
            limit=LINES + 1,
        )
        if exports.is_asked():
            return ListFiles(self._services).users(wanted)
        read = self._services.database.read
        rows, names = read(lambda session: users.filtered(session, wanted)), self._apps()
        user_ids = [row.user.id for row in rows]
        linked = read(lambda session: identities.subjects(session, user_ids))
        return render_template(
            "pages/users.html",
            form=form,
            rows=[(row, user_view(row.user, names, linked)) for row in rows[:LINES]],
            next=rows[LINES - 1].user.name if len(rows) > LINES else None,
            has_sso=self._services.sso is not None,
        )

    @route("/users/new", Right.ADMINISTER)
    def new(self) -> str:
        return self._new_page(self._with_apps(NewUserForm()))

    @route("/users/add", Right.ADMINISTER, methods=("POST",), form="users.new")
    def create(self) -> Response | tuple[str, int]:
        """Create a user with a temporary password."""
        form = self._with_apps(NewUserForm(request.form))
        name, password = form.username.data or "", form.password.data or ""
        is_valid = form.validate()
        wanted = None if form.role.errors else read_rights(form, self._apps())
        is_acceptable = not form.password.errors and _is_acceptable(form, name, password)
        if not is_valid or wanted is None or not is_acceptable:
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
        wanted = read_rights(form, self._apps()) if form.validate() else None
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

    @route(
        "/users/<id:user_id>/identity/link", Right.ADMINISTER, methods=("POST",), form="users.show"
    )
    def link(self, user_id: int) -> Response | tuple[str, int]:
        """Link a user to an identity of the provider; all sign-ins of the user end."""
        user, identities_ = self._find(user_id), self._services.commands(visitor().actor).identities
        if self._services.sso is None:
            abort(404)
        issuer = self._services.sso.provider.issuer
        subject = request.form.get("subject", "").strip()
        return self._linked(user, lambda: identities_.link(user_id, issuer, subject))

    @route(
        "/users/<id:user_id>/identity/unlink",
        Right.ADMINISTER,
        methods=("POST",),
        form="users.show",
    )
    def unlink(self, user_id: int) -> Response | tuple[str, int]:
        """Make a user local again; all sign-ins of the user end."""
        user, identities_ = self._find(user_id), self._services.commands(visitor().actor).identities
        return self._linked(user, lambda: identities_.unlink(user_id))

    def _linked(self, user: User, act: Callable[[], None]) -> Response | tuple[str, int]:
        try:
            act()
        except Problem as problem:
            form = self._rights_form(user)
            form.add_error(problem_text(problem))
            return self._page(user, form, ResetForm()), 409
        flash(gettext("%(name)s updated.", name=user.name))
        return redirect(url_for("users.show", user_id=user.id), 303)

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
        return render_template(
            "pages/users_show.html",
            user=user,
            rights=rights,
            reset=reset,
            has_sso=self._services.sso is not None,
            identity=None
            if user.sso_until is None
            else self._services.database.read(lambda reader: identities.of_user(reader, user.id)),
        )


def _is_acceptable(form: NewUserForm | ResetForm, name: str, password: str) -> bool:
    flaw = password_problem(password, name)
    if flaw is not None:
        form.password.errors = (labels.PASSWORD_FLAW[flaw],)
    return flaw is None


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
            return exports.resources("tokens", Token, [*self._listed().values()])
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
            scopes=form.chosen_scopes,
            app_ids=[apps.get(name, NO_APP_ID) for name in form.apps.data or ()],
            days=form.days.data or 0,
        )
        try:
            text = self._services.commands(known.actor).tokens.add(spec)
        except Refused as refused:
            form.token_name.errors = [*map(problem_text, refused.problems)]
            return self._page(form), 422
        return self._page(self._form(), text)

    @route("/tokens/<id:token_id>/revoke", Right.VIEW, methods=("POST",))
    def revoke(self, token_id: int) -> Response:
        """Revoke a token; it is invalid from the next request on."""
        self._services.commands(visitor().actor).tokens.revoke(token_id)
        flash(gettext("Token revoked."))
        return redirect(url_for("tokens.index"), 303)

    def _page(self, form: TokenForm, fresh: str = "") -> str:
        return render_template("pages/tokens.html", form=form, rows=self._listed(), fresh=fresh)

    def _listed(self) -> dict[int, Token]:
        known, now_ms = visitor(), self._services.now_ms()
        user_ids = None if known.actor.may(Right.ADMINISTER) else [known.user_id]
        return self._services.database.read(
            lambda session: read_tokens(
                session, now_ms=now_ms, user_ids=user_ids, app_ids=known.app_ids
            )
        )

    def _form(self, given: Any = None) -> TokenForm:
        known, form = visitor(), TokenForm(given)
        mine = [scope for scope in Scope if known.actor.may(RIGHTS[scope])]
        form.scopes.choices = [(scope.value, labels.SCOPE[scope.value]) for scope in mine]
        form.rights.choices = [
            *((name, label) for name, (label, scopes) in TOKEN_SETS.items() if scopes <= {*mine}),
            (SINGLE_SCOPES, lazy_gettext("Single scopes")),
        ]
        if given is None:
            form.rights.data = next(iter(TOKEN_SETS))
        form.apps.choices = [(name, name) for name in self._apps()]
        return form

    def _apps(self) -> dict[str, int]:
        known = visitor()
        return self._services.database.read(lambda session: ids_by_name(session, known.app_ids))
