"""The pages that show jobs: the list, and one job with its past and future runs."""

from collections.abc import Callable, Sequence
from functools import partial

from flask import render_template, request
from werkzeug.wrappers import Response

from warren.admin_web import exports
from warren.admin_web.exports import ListFiles
from warren.admin_web.forms.run_filter import LINES, JobFilterForm, wanted
from warren.admin_web.language import alarm_labels, job_labels
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.views.job_details import JobDetails, read_details, read_settings
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.schedules.calendar_rows import calendars_for
from warren.scheduler.schedules.reading import is_waiting, next_fire
from warren.sql.accounts import preferences
from warren.sql.listings import job_search
from warren.sql.listings.job_search import ListedJob
from warren.sql.registry.apps import ids_by_name

Page = Response | str | tuple[str, int]


class JobPages:
    """Jobs of the visitor's apps."""

    name = "jobs"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._files = ListFiles(services)

    @route("/jobs", Right.VIEW)
    def index(self) -> Page:
        """Show a page of jobs."""
        known, now_ms = visitor(), self._services.now_ms()
        form = JobFilterForm(request.args)
        apps, saved = self._services.database.read(
            lambda s: (
                list(ids_by_name(s, known.app_ids)),
                preferences.filters(s, known.user_id, "jobs"),
            )
        )
        form.set_choices(apps)
        if not form.validate():
            facts = {"form": form, "saved": saved}
            return render_template("pages/jobs.html", **facts, jobs=[], further=None), 422
        asked = wanted(form, known)
        if exports.is_asked():
            return self._files.jobs(asked)
        jobs = self._services.database.read(lambda s: job_search.search(s, asked, now_ms=now_ms))
        further = job_search.place(jobs[LINES - 1], asked.order) if len(jobs) > LINES else None
        return render_template(
            "pages/jobs.html",
            job_labels=job_labels,
            form=form,
            saved=saved,
            jobs=jobs[:LINES],
            further=further,
            next_fire=self._next_fire(jobs),
            is_waiting=is_waiting,
        )

    @route("/jobs/<id:job_id>", Right.VIEW)
    def show(self, job_id: int) -> str:
        """Show a job."""
        details = self._details(job_id)
        return render_template(
            "pages/jobs_show.html",
            job_labels=job_labels,
            alarm_labels=alarm_labels,
            details=details,
            settings=read_settings(details.spec, may_see_secrets=visitor().may(Right.OPERATE)),
            yaml=self._yaml(details.spec),
        )

    @route("/jobs/<id:job_id>/yaml", Right.OPERATE)
    def export(self, job_id: int) -> Response:
        """Return a job as a job file."""
        spec = self._details(job_id).spec
        headers = {"Content-Disposition": f'attachment; filename="job-{job_id}.yaml"'}
        return Response(self._yaml(spec), mimetype="application/yaml", headers=headers)

    def _details(self, job_id: int) -> JobDetails:
        known = visitor()
        return self._services.database.read(
            lambda s: read_details(s, self._services, known, job_id)
        )

    def _yaml(self, spec: JobSpec) -> str:
        """Return the job as a job file, if the visitor may see its webhooks; else nothing."""
        if self._services.job_file is None or not visitor().may(Right.OPERATE):
            return ""
        lines = self._services.job_file([AppSpec(name=spec.app)], [spec], (), ())
        return "".join(f"{line}\n" for line in lines)

    def _next_fire(self, jobs: Sequence[ListedJob]) -> Callable[[ListedJob], int | None]:
        """Return what gives the next tick of each of these jobs."""
        calendars = self._services.database.read(lambda s: calendars_for(s, jobs))
        return partial(
            next_fire,
            now_ms=self._services.now_ms(),
            timezone=self._services.timezone,
            calendars=calendars,
        )
