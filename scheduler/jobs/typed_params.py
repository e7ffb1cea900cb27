"""What online executors say about the params of their handlers, and whether a param fits.

While new code is deployed, executors may have different schemas: a param fits if one of them
accepts it. Handlers whose params no online executor has described are not checked.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from warren.broker.codec import catalogue_of
from warren.broker.errors import Malformed
from warren.broker.reasons import Reason, Why
from warren.scheduler.jobs.new_run import sample_param
from warren.scheduler.jobs.param_schema import param_problems, params_in_words
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.working_days import Calendars
from warren.sql.models.job_tables import NO_SCHEDULE
from warren.sql.registry import presence

#: The most catalogues whose schemas are cached: an app has one, or two for a while.
REMEMBERED = 64


@lru_cache(maxsize=REMEMBERED)
def _decoded(schema: str) -> Any:
    return msgspec.json.decode(schema)


class HandlerSchemas(NamedTuple):
    """What online executors report about a handler's params.

    Attributes:
        schemas: its different schemas.
        is_complete: whether all executors that may have it sent theirs.
        unchecked: why no param of it can be checked, although it may be typed; else None.

    """

    schemas: tuple[str, ...]
    is_complete: bool
    unchecked: Reason | None

    def problems(self, param: str) -> list[Problem]:
        """Return why no executor accepts a param; nothing if one does, or may."""
        if not self.is_complete:
            return []
        by_schema = [param_problems(_decoded(schema), param) for schema in self.schemas]
        return min(by_schema, key=len, default=[])

    def problems_of_own(self, param: str) -> list[Problem]:
        """Return why no executor accepts a job's own param; of none, what the handler takes."""
        problems = self.problems(param)
        if param or not problems:
            return problems
        taken = params_in_words(_decoded(self.schemas[0]))
        return [Problem(Code.PARAM_NEEDED, "param", params=taken)]


class TypedParams:
    """The params of the handlers of some apps, as online executors describe them."""

    def __init__(self, catalogues_of: Mapping[str, Collection["_Schemas | None"]]) -> None:
        self._catalogues_of = catalogues_of

    @classmethod
    def read(cls, session: Session, apps: Collection[str], now_ms: int) -> "TypedParams":
        """Read what online executors say about the handlers of these apps."""
        online: dict[str, set[str]] = defaultdict(set)
        for app, fingerprint in presence.catalogues_online(session, apps, now_ms=now_ms):
            online[app].add(fingerprint or "")
        wanted = {catalogue for of_app in online.values() for catalogue in of_app if catalogue}
        known = _remembered.of(session, wanted)
        return cls(
            {app: [known.get(catalogue) for catalogue in of_app] for app, of_app in online.items()}
        )

    @classmethod
    def described(cls, apps: Collection[str], schemas: Mapping[str, str]) -> "TypedParams":
        """Return the params of handlers by their schemas; there may be other handlers."""
        described = _Schemas(schemas, has_more=True)
        return cls({app: [described] for app in apps})

    def of(self, app: str, handler: str) -> HandlerSchemas:
        schemas: dict[str, None] = {}
        is_complete = True
        online = self._catalogues_of.get(app, ())
        unchecked = None if online else Why.PARAM_UNCHECKED_OFFLINE(app=app)
        for typed in online:
            if typed is None or (handler not in typed.schemas and typed.has_more):
                is_complete = False  # it may have the handler, and accept anything
                unchecked = Why.PARAM_UNCHECKED_UNTOLD(app=app)
            elif handler in typed.schemas:
                schema = typed.schemas[handler]
                is_complete = is_complete and bool(schema)
                schemas |= {schema: None} if schema else {}
        return HandlerSchemas(tuple(schemas), is_complete, unchecked)

    def problems(self, app: str, handler: str, param: str) -> list[Problem]:
        """Return why no executor of an app accepts a param for a handler."""
        return self.of(app, handler).problems(param) if handler else []

    def problems_of(self, spec: JobSpec, now_ms: int, calendars: Calendars) -> list[Problem]:
        """Return why no executor accepts the param of a job, or the one that would be made now.

        A job without a schedule may leave its param to its triggers.
        """
        if spec.schedule_kind == NO_SCHEDULE and not (spec.param or spec.param_template):
            return []
        try:
            param = sample_param(spec, now_ms, calendars=calendars)
        except Problem:
            return []  # the rules say so
        return self.problems(spec.app, spec.handler, param)


class _Schemas(NamedTuple):
    """The schema of each handler in a catalogue, "" = none; and whether it has others too."""

    schemas: Mapping[str, str]
    has_more: bool


class _Remembered:
    """A cache of catalogues by fingerprint, which is a hash of the content, so it never goes stale.

    A trigger then only reads who is online, and each catalogue of up to 900 kB once. Thread-safe.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Schemas | None] = {}

    def of(self, session: Session, fingerprints: Collection[str]) -> dict[str, _Schemas | None]:
        """Return what these catalogues say; those that are not stored are left out."""
        before = self._known
        missing = [name for name in fingerprints if name not in before]
        schemas = {name: before[name] for name in fingerprints if name in before}
        if not missing:
            return schemas
        schemas |= {
            name: _read(text) for name, text in presence.read_catalogues(session, missing).items()
        }
        # Replaced as a whole, as other threads read it; what one of them adds now is read again.
        kept = before if len(before) + len(missing) <= REMEMBERED else {}
        self._known = kept | schemas
        return schemas


_remembered = _Remembered()


def _read(contents: str) -> _Schemas | None:
    try:
        catalogue = catalogue_of(contents.encode())
    except Malformed:  # a later version of Warren may have written it
        return None
    return _Schemas(
        {handler.name: handler.schema for handler in catalogue.handlers}, catalogue.has_more
    )
