"""The banners, which pages reload regularly."""

from flask import Flask, g, render_template

from warren.admin_web.conditions.cluster_conditions import ClusterConditions, Condition
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right


class ConditionPages:
    """Banners for everybody who has signed in, on every page."""

    name = "conditions"

    def __init__(self, conditions: ClusterConditions) -> None:
        self._conditions = conditions

    @route("/conditions", Right.VIEW)
    def show(self) -> str:
        """Show what is wrong with the cluster; empty if nothing is."""
        return render_template("conditions.html", viewer=visitor())

    def install(self, app: Flask) -> None:
        """Provide the conditions to the layout."""
        app.jinja_env.globals["conditions"] = self._read

    def _read(self) -> list[Condition]:
        """Return the conditions that the visitor may see; read once a request."""
        if "conditions" not in g:
            g.conditions = self._conditions.read(visitor().app_ids)
        found: list[Condition] = g.conditions
        return found
