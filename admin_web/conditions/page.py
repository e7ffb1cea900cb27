"""The banners alone, which pages ask for again and again while they are looked at."""

from flask import Flask, g, render_template

from admin_web.conditions.cluster_conditions import ClusterConditions, Condition
from admin_web.url_routes import route
from admin_web.visitors import visitor
from scheduler.actor import Right


class ConditionPages:
    """For everybody who has signed in, on every page."""

    name = "conditions"

    def __init__(self, conditions: ClusterConditions) -> None:
        self._conditions = conditions

    @route("/conditions", Right.VIEW)
    def show(self) -> str:
        """Show what is wrong with the cluster, nothing while all is well."""
        return render_template("conditions.html", viewer=visitor())

    def install(self, app: Flask) -> None:
        """Give the layout what it shows above every page."""
        app.jinja_env.globals["conditions"] = self._read

    def _read(self) -> list[Condition]:
        """Return what is wrong, as whoever looks may know it; read once a request."""
        if "conditions" not in g:
            g.conditions = self._conditions.read(visitor().app_ids)
        found: list[Condition] = g.conditions
        return found
