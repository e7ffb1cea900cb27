"""Clears finished runs in the background of a console; the page shows the progress."""

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

import structlog
from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.forms.run_filter import CLEARED, ClearForm
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, has_rights_of, visitor
from warren.scheduler.actor import Actor, Right
from warren.scheduler.retention.clearing import ClearingCriteria, ClearingPreset, criteria_of
from warren.sql.errors import DatabaseUnavailable
from warren.sql.jobs import job_names

log = structlog.get_logger()


class ClearingState(StrEnum):
    """Whether a clearing is running, or how it ended."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    #: The user was disabled or has other rights than at the start.
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A clearing: its criteria, the user who started it, how many runs it has cleared.

    `app_id` None = all apps; `job` is the name as it was typed.
    """

    choice: ClearingPreset
    user_id: int
    who: str
    began_at: int
    app_id: int | None = None
    app: str = ""
    job: str = ""
    count: int = 0
    state: ClearingState = ClearingState.RUNNING

    def concerns(self, name: str, app_ids: Collection[int] | None) -> bool:
        """Return whether a user with this name and these apps may see it."""
        return app_ids is None or self.who == name or self.app_id in app_ids


class Clearings:
    """The running or last clearing of this console process."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._is_to_stop = threading.Event()

    @property
    def progress(self) -> Progress | None:
        """Its progress; None before the first one."""
        return self._progress

    def start(self, actor: Actor, criteria: ClearingCriteria, progress: Progress) -> bool:
        """Start a clearing; return False if one is running."""
        with self._lock:
            if self._progress is not None and self._progress.state is ClearingState.RUNNING:
                return False
            self._progress = progress
            self._is_to_stop.clear()
        # A daemon thread: the console may stop in between, as each step is complete in itself.
        threading.Thread(
            target=self._clear, args=(actor, criteria), name="clearing", daemon=True
        ).start()
        return True

    def stop(self) -> None:
        """Stop it after the current step."""
        self._is_to_stop.set()

    def _clear(self, actor: Actor, criteria: ClearingCriteria) -> None:
        commands = self._services.commands(actor).clearing
        try:
            count = commands.clear(
                criteria, on_progress=lambda count: self._record_step(count, actor)
            )
        except _Ended as ended:
            self._set(state=ended.state)
        except DatabaseUnavailable as error:
            log.warning("clearing_interrupted", error=str(error))
            self._set(state=ClearingState.FAILED)
        except Exception:
            log.exception("clearing_failed")
            self._set(state=ClearingState.FAILED)
        else:
            self._set(state=ClearingState.DONE, count=count)

    def _record_step(self, count: int, actor: Actor) -> None:
        """Record a step; raise `_Ended` if the user stopped it, or may not clear runs any more."""
        user_id = self._set(count=count).user_id
        if self._is_to_stop.is_set():
            raise _Ended(ClearingState.STOPPED)
        if not self._services.database.read(lambda session: has_rights_of(session, user_id, actor)):
            raise _Ended(ClearingState.REVOKED)

    def _set(self, **changes: object) -> Progress:
        with self._lock:
            assert self._progress is not None, "a clearing has begun"
            self._progress = replace(self._progress, **changes)  # type: ignore[arg-type]
            return self._progress


class _Ended(Exception):
    """Ends a clearing between two steps."""

    def __init__(self, state: ClearingState) -> None:
        super().__init__(state)
        self.state = state


class ClearingPages:
    """For administrators, and for operators within their own apps."""

    name = "clearing"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._clearings = Clearings(services)

    @route("/runs/clear", Right.OPERATE)
    def show(self) -> str:
        """Show the form, and the progress of the current clearing."""
        return self._page(self._form(visitor()))

    @route("/runs/clear/start", Right.OPERATE, methods=("POST",))
    def start(self) -> Response | tuple[str, int]:
        known = visitor()
        form = self._form(known)
        if not form.validate() or not self._is_allowed(form, known):
            return self._page(form), 422
        choice, now_ms = ClearingPreset(int(form.choice.data)), self._services.now_ms()
        app_id = None if form.job_id is not None else form.app_id
        criteria = criteria_of(choice, now_ms=now_ms, job_id=form.job_id, app_id=app_id)
        progress = Progress(
            choice=choice,
            user_id=known.user_id,
            who=known.name,
            began_at=now_ms,
            app_id=form.app_id,
            app=form.app.data or "",
            job=(form.job.data or "").strip(),
        )
        if not self._clearings.start(known.actor, criteria, progress):
            form.add_error(
                gettext("Runs are already being deleted. Only one deletion can run at a time.")
            )
            return self._page(form), 409
        flash(gettext("Deletion started."))
        return redirect(url_for("clearing.show"), 303)

    @route("/runs/clear/stop", Right.OPERATE, methods=("POST",))
    def stop(self) -> Response:
        """Stop the current clearing, if the visitor may see it."""
        known, progress = visitor(), self._clearings.progress
        if progress is not None and progress.concerns(known.name, known.app_ids):
            self._clearings.stop()
            flash(gettext("Stopping after the current step. Deleted runs are not restored."))
        return redirect(url_for("clearing.show"), 303)

    def _form(self, known: Visitor) -> ClearForm:
        form = ClearForm(request.form or request.args)
        self._services.database.read(lambda session: form.set_choices(session, known.app_ids))
        return form

    def _is_allowed(self, form: ClearForm, known: Visitor) -> bool:
        """Return whether it concerns only the visitor's apps; if not, its field says so."""
        if known.app_ids is None:
            return True
        name = (form.job.data or "").strip()
        if form.job_id is not None:
            app_ids = self._services.database.read(
                lambda session: job_names.ids_named(session, name, known.app_ids)
            )
            if form.job_id not in app_ids:
                form.job.errors = [gettext("Job not found.")]
                return False
        elif form.app_id is None:
            form.app.errors = [gettext("Choose one of your apps, or a job.")]
            return False
        return True

    def _page(self, form: ClearForm) -> str:
        known, progress = visitor(), self._clearings.progress
        is_busy = progress is not None and progress.state is ClearingState.RUNNING
        is_known = progress is not None and progress.concerns(known.name, known.app_ids)
        return render_template(
            "pages/clearing.html",
            form=form,
            progress=progress if is_known else None,
            is_busy=is_busy,
            choices=CLEARED,
        )
