"""What users save for themselves: filters, which are links, and favourite jobs."""

from flask import abort, flash, redirect, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.access.gate import local_path
from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.sql.accounts import preferences
from warren.sql.listings import job_search

#: The lists whose filters can be saved, by the name of their page.
PAGES = {"jobs": "jobs.index", "runs": "runs.index"}
LONGEST_NAME, LONGEST_QUERY = 64, 1_024


class PreferencePages:
    """Saves and deletes a user's own filters and favourites."""

    name = "preferences"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/filters/save", Right.VIEW, methods=("POST",))
    def save_filter(self) -> Response:
        """Save the filter of a list under a name."""
        page, query = request.form.get("page", ""), request.form.get("query", "").lstrip("?")
        name = " ".join(request.form.get("name", "").split())
        if page not in PAGES:
            abort(400)
        is_query = len(query) <= LONGEST_QUERY and query.isprintable()
        back = url_for(PAGES[page]) + (f"?{query}" if query and is_query else "")
        if not name or len(name) > LONGEST_NAME:
            flash(gettext("Enter a name of up to %(n)s characters.", n=LONGEST_NAME), "error")
        elif not is_query:
            flash(gettext("This filter is too long to be saved."), "error")
        elif self._services.database.write(
            lambda s: preferences.save_filter(s, visitor().user_id, page, name, query)
        ):
            flash(gettext("Filter saved."))
        else:
            most = preferences.MOST_FILTERS
            flash(gettext("You have %(n)s saved filters. Delete one first.", n=most), "error")
        return redirect(back, 303)

    @route("/filters/forget", Right.VIEW, methods=("POST",))
    def forget_filter(self) -> Response:
        """Delete a saved filter."""
        page, found = request.form.get("page", ""), request.form.get("id", type=int)
        if page not in PAGES or found is None or not 0 < found < 2**63:
            abort(400)
        user_id = visitor().user_id
        self._services.database.write(lambda s: preferences.forget_filter(s, user_id, found))
        flash(gettext("Filter deleted."))
        return redirect(url_for(PAGES[page]), 303)

    @route("/jobs/<id:job_id>/favourite", Right.VIEW, methods=("POST",))
    def set_favourite(self, job_id: int) -> Response:
        """Add or remove a favourite job."""
        known, is_on = visitor(), request.form.get("on") == "1"
        now_ms = self._services.now_ms()
        self._services.database.read(
            lambda s: job_search.show(s, job_id, known.app_ids, now_ms=now_ms)
        )
        if not self._services.database.write(
            lambda s: preferences.set_favourite(s, known.user_id, job_id, is_on=is_on)
        ):
            most = preferences.MOST_FAVOURITES
            flash(gettext("You have %(n)s favourites. Remove one first.", n=most), "error")
        back = local_path(request.form.get("back") or url_for("jobs.show", job_id=job_id))
        return redirect(back, 303)
