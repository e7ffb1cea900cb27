"""The base form, with messages in the viewer's language.

The CSRF token is not a field: it is checked for every POST before a view is called.
"""

from typing import Any

from wtforms import Form


class ConsoleForm(Form):
    """A form that can also show a problem that belongs to no single field."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.problem = ""

    def add_error(self, problem: str) -> None:
        """Show a problem above the fields."""
        self.problem = problem
