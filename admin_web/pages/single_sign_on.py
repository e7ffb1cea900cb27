"""Signing in at the provider of single sign-on, and linking one's own user to an identity there."""

from typing import Any

import structlog
from flask import abort, flash, redirect, render_template, request, session, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.access.gate import TOKEN, local_path, origin
from warren.admin_web.access.sign_ins import NotAdmitted, SignIns
from warren.admin_web.identity_provider import (
    Attempt,
    GroupsMissing,
    Proof,
    ProviderError,
    SignInInvalid,
)
from warren.admin_web.language.labels import problem_text
from warren.admin_web.links import page_of
from warren.admin_web.pages.account import start_session
from warren.admin_web.services import ConsoleServices, SingleSignOn
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.identity_commands import Reading
from warren.scheduler.problems import Problem
from warren.sql.accounts.identities import key_of

#: The key of the attempts in the signed cookie, how many a browser may have open, and how long.
ATTEMPTS, MOST_ATTEMPTS, ATTEMPT_SECONDS = "sso", 3, 600
#: How long ago a sign-in at the provider may be to count as fresh.
FRESH_SECONDS = 300
_LONGEST_TARGET = 500

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
        self._sso()
        kept = self._kept(request.args.get("state", ""))
        if kept is None:
            words = gettext("This sign-in was begun in another browser, or too long ago.")
            return _refused(words, 400)
        if (wait := self._sign_ins.count_return(origin())) is not None:
            words = gettext("Too many attempts. Try again in %(s)s s.", s=wait.seconds)
            return (*_refused(words, 429), {"Retry-After": str(wait.seconds)})
        try:
            return self._come_back(*kept)
        except SignInInvalid as error:
            return self._invalid(error, gettext("What the provider sent proves no sign-in."))
        except GroupsMissing as error:
            return self._invalid(
                error,
                gettext(
                    "The provider leaves your groups out because there are too many. Whoever looks "
                    "after it can let it send only the groups that are assigned to Warren."
                ),
            )
        except ProviderError as error:
            return self._away(error)

    def _come_back(self, attempt: Attempt, target: str, links: int) -> Response | tuple[str, int]:
        if "error" in request.args:
            said = request.args.get("error_description") or request.args["error"]
            self._sign_ins.record_refusal(origin())
            return _refused(gettext("The provider has signed nobody in."), 401, said[:200])
        sso, at_ms = self._sso(), self._services.now_ms()
        proof = sso.provider.redeem(
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
        known = self._sign_ins.find(str(session.get(TOKEN, "")), origin=origin(), is_click=True)
        if not isinstance(known, Visitor) or known.user_id != user_id:
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
        provider = self._sso().provider
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

    def _open(self) -> dict[str, list[Any]]:
        return dict(session.get(ATTEMPTS) or {})

    def _sso(self) -> SingleSignOn:
        """Return what is set up; abort with 404 if nothing is."""
        if self._services.sso is None:
            abort(404)
        return self._services.sso

    def _invalid(self, error: ProviderError, words: str) -> tuple[str, int]:
        log.warning("sso_sign_in_refused", origin=origin(), reason=str(error))
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


def _not_admitted(sso: SingleSignOn, proof: Proof, answer: NotAdmitted) -> tuple[str, int]:
    whom = sso.contact or gettext("an administrator of Warren")
    if answer.is_disabled:
        words = gettext("Your user is disabled. Ask %(whom)s.", whom=whom)
    elif proof.has_groups:
        words = gettext("None of your groups has rights in Warren. Ask %(whom)s.", whom=whom)
    else:
        words = gettext(
            "The provider names no groups of yours, so you have no rights in Warren. Ask %(whom)s.",
            whom=whom,
        )
    page = render_template("pages/sso_refused.html", words=words, subject=proof.person.subject)
    return page, 403
