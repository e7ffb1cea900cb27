"""Jobs: so far only how they are named."""

from typing import Annotated

import msgspec

from warren.resources.operation import Scope, operation


class JobName(msgspec.Struct, kw_only=True, frozen=True):
    """The name of a job: APP/NAME."""

    app: str
    name: str

    def __str__(self) -> str:
        """Return APP/NAME."""
        return f"{self.app}/{self.name}"


class NameQuery(msgspec.Struct, kw_only=True):
    """A job's NAME, or APP/NAME."""

    name: Annotated[str, msgspec.Meta(max_length=512)] = ""


@operation("GET", "/jobs:find", Scope.READ, query=NameQuery)
def find_job(name: str) -> JobName:
    """Find the job that a NAME means; several jobs of that name, or none, are refused."""
