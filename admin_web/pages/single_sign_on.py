"""Single sign-on: signing in at the provider, linking one's own user, and the rules for groups."""

from typing import Any

import structlog
from flask import abort, flash, redirect, render_template, request, session, url_for
from flask_babel import gettext, lazy_gettext
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response
from wtforms import StringField
from wtforms.validators import InputRequired

from warren.admin_web.access.gate import TOKEN, local_path, origin
from warren.admin_web.access.sign_ins import NotAdmitted, SignIns
from warren.admin_web.forms.console_form import REQUIRED, select_choices
from warren.admin_web.identity_provider import (
    Attempt,
    GroupsMissing,
    Proof,
    Provider,
    ProviderError,
    SignInInvalid,
)
from warren.admin_web.language.labels import problem_text
from warren.admin_web.links import page_of
from warren.admin_web.pages.account import start_session
from warren.admin_web.pages.users import RightsForm, read_rights
from warren.admin_web.services import ConsoleServices, SingleSignOn
from warren.admin_web.url_routes import home, route
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.identity_commands import Reading, RuleCommands, Rules
from warren.scheduler.names import bare_line
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts.identities import key_of
from warren.sql.accounts.users import Rights
from warren.sql.registry.apps import ids_by_name

#: The key of the attempts in the signed cookie, how many a browser may have open, and how long.
ATTEMPTS, MOST_ATTEMPTS, ATTEMPT_SECONDS = "sso", 3, 600
#: How long ago a sign-in at the provider may be to count as fresh.
FRESH_SECONDS = 300
_LONGEST_TARGET = 500
_LONGEST_REASON = 500

log = structlog.get_logger()


class SingleSignOnPages:
    """The way to the provider and back."""

    name = "sso"

    def __init__(self, services: ConsoleServices, sign_ins: SignIns) -> None:
        self._services = services
        self._sign_ins = sign_ins

    @route("/sso/start", Right.ANYONE)
    def start(self) -> Response | tuple[str, int]:
        """Send a browser to the provider."""
        target = local_path(request.args.get("next"))
        try:
            return redirect(self._way_out(target if len(target) <= _LONGEST_TARGET else ""), 303)
        except ProviderError as error:
            return self._away(error)

    @route("/account/identity/link", Right.VIEW, methods=("POST",), form="account.show")
    def link(self) -> str | tuple[str, int]:
        """Send a browser to the provider to link the visitor to whoever signs in there now."""
        try:
            url = self._way_out("", links=visitor().user_id)
        except ProviderError as error:
            return self._away(error)
        return leave_page(url)

    @route("/sso/callback", Right.ANYONE)
    def callback(self) -> str | Response | tuple[str, int] | tuple[str, int, dict[str, str]]:
        """Take a browser back from the provider."""
        try:
            with self._sso().asked() as provider:
                return self._called_back(provider)
        except ProviderError as error:
            return self._away(error)

    def _called_back(
        self, provider: Provider
    ) -> str | Response | tuple[str, int] | tuple[str, int, dict[str, str]]:
        state = request.args.get("state", "")
        if state not in self._open() and self._signed_in() is not None:
            # Another tab was faster, or somebody went back: there is nothing left to do.
            return redirect(home(), 303)
        kept = self._kept(state)
        if kept is None:
            words = gettext("This sign-in was begun in another browser, or too long ago.")
            return _refused(words, 400)
        if (wait := self._sign_ins.count_return(origin())) is not None:
            words = gettext("Too many attempts. Try again in %(s)s s.", s=wait.seconds)
            return (*_refused(words, 429), {"Retry-After": str(wait.seconds)})
        try:
            return self._come_back(provider, *kept)
        except SignInInvalid as error:
            return self._invalid(error, gettext("The provider's answer does not prove a sign-in."))
        except GroupsMissing as error:
            return self._invalid(
                error,
                gettext(
                    "The provider left out your groups because there are too many. Its "
                    "administrator can make it send only the groups that are assigned to Warren."
                ),
            )

    def _come_back(
        self, provider: Provider, attempt: Attempt, target: str, links: int
    ) -> Response | tuple[str, int]:
        if "error" in request.args:
            said = bare_line(
                request.args.get("error_description") or request.args["error"], _LONGEST_REASON
            )
            _log_refusal(f"the provider said: {said}")
            self._sign_ins.record_refusal(origin())
            return _refused(gettext("The provider did not sign you in."), 401, said)
        sso, at_ms = self._sso(), self._services.now_ms()
        proof = provider.redeem(
            attempt, request.args.get("code", ""), issuer=request.args.get("iss")
        )
        if links and (refusal := self._link(proof, links)) is not None:
            return refusal
        return self._admit(sso, proof, at_ms, target)

    def _admit(
        self, sso: SingleSignOn, proof: Proof, at_ms: int, target: str
    ) -> Response | tuple[str, int]:
        person = proof.person
        owner, token = key_of(person.issuer, person.subject), proof.refresh_token
        reading = Reading(
            at_ms=at_ms,
            refresh_token=sso.provider.seal(token, owner) if token else None,
            tokens_ms=sso.tokens_ms,
        )
        answer = self._sign_ins.open_for(
            person,
            reading,
            id_token=sso.provider.seal(proof.id_token, owner),
            origin=origin(),
            agent=request.user_agent.string,
            instead_of=str(session.get(TOKEN, "")),
        )
        if isinstance(answer, NotAdmitted):
            return _not_admitted(sso, proof, answer)
        self._sign_ins.forget_return(origin())
        target = local_path(target)
        return start_session(answer.token, page_of(target) or target)

    def _link(self, proof: Proof, user_id: int) -> Response | tuple[str, int] | None:
        """Link the visitor who began this to a person; return None, or why it was refused."""
        known = self._signed_in()
        if known is None or known.user_id != user_id:
            return _refused(gettext("Your session has ended in the meantime. Sign in again."), 401)
        now_seconds = self._services.now_ms() // 1000
        at = proof.signed_in_at
        if at is not None and now_seconds - at > FRESH_SECONDS:
            words = gettext("The provider did not ask you to sign in again, so nothing was linked.")
            return _refused(words, 401)
        person = proof.person
        try:
            self._services.commands(known.actor).identities.link(
                user_id, person.issuer, person.subject, groups=person.groups
            )
        except Problem as problem:
            flash(problem_text(problem), "error")
            return redirect(url_for("account.show"), 303)
        return None

    def _way_out(self, target: str, links: int = 0) -> str:
        """Return where to send a browser, and keep in its cookie what has to come back.

        Raises:
            ProviderError: the provider does not answer.

        """
        with self._sso().asked() as provider:
            attempt = provider.new_attempt()
            url = provider.sign_in_url(attempt, is_fresh=bool(links))
        began = self._services.now_ms() // 1000
        open_now = {
            state: one for state, one in self._open().items() if began - one[0] < ATTEMPT_SECONDS
        }
        newest = sorted(open_now.items(), key=lambda item: item[1][0])[1 - MOST_ATTEMPTS :]
        mine = [began, attempt.nonce, attempt.verifier, target, links]
        session[ATTEMPTS] = dict(newest) | {attempt.state: mine}
        return url

    def _kept(self, state: str) -> tuple[Attempt, str, int] | None:
        """Take an attempt out of the cookie, with its target and whom it links; None = unknown."""
        known = self._open()
        found = known.pop(state, None)
        if found is None:
            return None
        session[ATTEMPTS] = known
        began, nonce, verifier, target, links = found
        if self._services.now_ms() // 1000 - began > ATTEMPT_SECONDS:
            return None
        return Attempt(state=state, nonce=nonce, verifier=verifier), target, links

    def _signed_in(self) -> Visitor | None:
        token = str(session.get(TOKEN, ""))
        found = self._sign_ins.find(token, origin=origin(), is_click=True)
        return found if isinstance(found, Visitor) else None

    def _open(self) -> dict[str, list[Any]]:
        return dict(session.get(ATTEMPTS) or {})

    def _sso(self) -> SingleSignOn:
        """Return what is set up; abort with 404 if nothing is."""
        if self._services.sso is None:
            abort(404)
        return self._services.sso

    def _invalid(self, error: ProviderError, words: str) -> tuple[str, int]:
        _log_refusal(str(error))
        self._sign_ins.record_refusal(origin())
        return _refused(words, 401, str(error))

    def _away(self, error: ProviderError) -> tuple[str, int]:
        log.warning("sso_provider_failed", error=str(error))
        words = gettext("Single sign-on does not work at the moment, but passwords do.")
        return _refused(words, 503, str(error))


def leave_page(url: str) -> str:
    """Return a page that goes on to the provider.

    A redirect would not do after a form: browsers apply the policy for forms to it.
    """
    return render_template("pages/sso_leave.html", url=url)


def _refused(words: str, status: int, detail: str = "") -> tuple[str, int]:
    """Return a page that says why nobody is signed in; the detail is as the provider has it."""
    return render_template("pages/sso_refused.html", words=words, detail=detail), status


def _log_refusal(reason: str, **facts: str) -> None:
    told = bare_line(reason, _LONGEST_REASON)
    log.warning("sso_sign_in_refused", origin=origin(), reason=told, **facts)


def _not_admitted(sso: SingleSignOn, proof: Proof, answer: NotAdmitted) -> tuple[str, int]:
    whom, person = sso.contact or gettext("an administrator of Warren"), proof.person
    if answer.is_disabled:
        reason = "the user is disabled"
        words = gettext("Your user is disabled. Ask %(whom)s.", whom=whom)
    elif proof.has_groups:
        reason = f"no rule matches the groups: {', '.join(person.groups) or 'none'}"
        words = gettext("None of your groups has rights in Warren. Ask %(whom)s.", whom=whom)
    else:
        reason = "the provider names no groups"
        words = gettext(
            "The provider names no groups for you, so you have no rights in Warren. Ask %(whom)s.",
            whom=whom,
        )
    _log_refusal(reason, subject=person.subject)
    page = render_template("pages/sso_refused.html", words=words, subject=person.subject)
    return page, 403


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
        group = request.form.get("group", "")
        if request.form.get("remove"):
            return {name: rights for name, rights in rules.items() if name != group}
        rights = read_rights(form, self._apps()) if form.validate() else None
        return None if rights is None else {**rules, group.strip(): rights}

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
