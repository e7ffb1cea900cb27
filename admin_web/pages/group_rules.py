"""The rules of single sign-on: what the members of a provider's groups may do, shown first."""

from typing import Any

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response
from wtforms import StringField
from wtforms.validators import InputRequired

from warren.admin_web.forms.console_form import REQUIRED, select_choices
from warren.admin_web.language.labels import problem_text
from warren.admin_web.pages.users import RightsForm, read_rights
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.identity_commands import RuleCommands, Rules
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts.users import Rights
from warren.sql.registry.apps import ids_by_name


class RuleForm(RightsForm):
    """A rule; one of the same group is replaced."""

    group = StringField(lazy_gettext("Group"), [InputRequired(REQUIRED)])


class GroupRulePages:
    """Rules for groups, for administrators."""

    name = "group_rules"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/users/groups", Right.ADMINISTER)
    def index(self) -> str:
        """Show the rules, and the form of one: a new one, or that of the group in the query."""
        rules, group = self._commands.present(), request.args.get("group", "")
        form = self._form()
        if group in rules:
            form = self._form(data={"group": group, **self._fields(rules[group])})
        return self._page(rules, form)

    @route("/users/groups/preview", Right.ADMINISTER, methods=("POST",), form="group_rules.index")
    def preview(self) -> str | tuple[str, int]:
        """Show what a rule, or its end, would change."""
        return self._preview()

    @route("/users/groups/apply", Right.ADMINISTER, methods=("POST",), form="group_rules.index")
    def apply(self) -> Response | str | tuple[str, int]:
        """Change the rules as they were shown."""
        rules = self._commands.present()
        wanted = self._wanted(rules, self._form(request.form))
        if wanted is None:
            return self._preview()
        try:
            self._commands.apply(wanted, digest=request.form.get("digest", ""))
        except Problem as problem:
            if problem.code is Code.RULES_CHANGED:
                return self._preview(problem_text(problem), 409)
            return self._refused(rules, problem)
        flash(gettext("Rules changed."))
        return redirect(url_for("group_rules.index"), 303)

    def _preview(self, notice: str = "", status: int = 200) -> str | tuple[str, int]:
        rules, form = self._commands.present(), self._form(request.form)
        wanted = self._wanted(rules, form)
        if wanted is None:
            return self._page(rules, form), 422
        try:
            change = self._commands.foresee(wanted)
        except Problem as problem:
            return self._refused(rules, problem)
        kept = MultiDict(request.form)
        for name in ("csrf_token", "digest"):
            kept.poplist(name)
        page = render_template(
            "pages/group_rules_preview.html",
            change=change,
            apps=self._apps(),
            kept=list(kept.items(multi=True)),
            notice=notice,
        )
        return page, status

    def _refused(self, rules: Rules, problem: Problem) -> tuple[str, int]:
        form = self._form(request.form)
        form.add_error(problem_text(problem))
        return self._page(rules, form), 409

    def _wanted(self, rules: Rules, form: RuleForm) -> dict[str, Rights] | None:
        """Return the rules that a form asks for; None if it is invalid, and a field says why."""
        group = form.group.data or ""
        if request.form.get("remove"):
            return {name: rights for name, rights in rules.items() if name != group}
        rights = read_rights(form, self._apps()) if form.validate() else None
        return None if rights is None else {**rules, group: rights}

    def _form(self, given: Any = None, data: dict[str, Any] | None = None) -> RuleForm:
        form = RuleForm(given, data=data)
        form.apps.choices = select_choices((name, name) for name in self._apps().values())
        return form

    def _fields(self, rights: Rights) -> dict[str, Any]:
        names = self._apps()
        return {
            "role": rights.role.name.lower(),
            "apps": [names[app_id] for app_id in rights.app_ids if app_id in names],
            "may_edit_glue": rights.may_edit_glue,
        }

    def _page(self, rules: Rules, form: RuleForm) -> str:
        return render_template("pages/group_rules.html", rules=rules, apps=self._apps(), form=form)

    def _apps(self) -> dict[int, str]:
        ids = self._services.database.read(ids_by_name)
        return {app_id: name for name, app_id in ids.items()}

    @property
    def _commands(self) -> RuleCommands:
        return self._services.commands(visitor().actor).rules
