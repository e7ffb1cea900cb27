"""Resolves names to ids, and checks one-line texts.

Console, command line and API accept names; commands take only ids.
"""

import re
import unicodedata
from collections.abc import Collection

from warren.resources.spelling import nearest
from warren.sql.accounts import tokens, users
from warren.sql.engine import Database
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.jobs import job_names
from warren.sql.registry import apps, presence


class Resolver:
    """Finds ids by name; raises NotFound for an unknown name, Ambiguous if several rows have it.

    Jobs, apps and executors of other apps than `app_ids` do not exist; None = all apps do.
    """

    def __init__(self, database: Database, app_ids: Collection[int] | None = None) -> None:
        self._read = database.read
        self._app_ids = app_ids

    def job(self, name: str) -> int:
        """Return the id of a job, given as NAME, or as APP/NAME if two apps share the name."""
        return self._read(lambda session: job_names.find(session, name, self._app_ids).id)

    def app(self, name: str) -> int:
        return self._read(lambda session: apps.find(session, name, self._app_ids).id)

    def executor(self, name: str) -> int:
        """Return the id of an executor, given as ADDRESS, or APP/ADDRESS if two apps share it."""
        app, _, address = name.rpartition("/")
        return self._read(
            lambda session: presence.executor_id(session, address, app or None, self._app_ids)
        )

    def user(self, name: str) -> int:
        return self._read(lambda session: users.find(session, name).id)

    def token(self, name: str) -> int:
        token = self._read(lambda session: tokens.by_name(session, name))
        if token is None:
            raise NotFound(LookupFailure.NO_TOKEN_NAMED, name=name)
        return token.id


#: The most jobs with which an unknown name is compared.
COMPARED = 20_000


def nearest_name(
    database: Database, error: NotFound, app_ids: Collection[int] | None = None
) -> str:
    """Return the job or app that was probably meant; empty if none has a similar name.

    Those of other apps than `app_ids` are not named; None = all apps are.
    """
    said = str(error.facts.get("name", ""))
    if error.code is LookupFailure.NO_APP_NAMED:
        known = list(database.read(lambda session: apps.ids_by_name(session, app_ids)))
    elif error.code is LookupFailure.NO_JOB_NAMED:
        names = database.read(lambda session: job_names.some(session, app_ids, limit=COMPARED))
        known = [f"{app}/{name}" if "/" in said else name for app, name in names]
    else:
        return ""
    if said in known:  # in another app than the one that was asked for
        return ""
    return nearest(said, known)


#: Categories of Unicode.
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def is_line(text: str, longest: int) -> bool:
    """Whether a text has at most `longest` characters and no control character or end of line."""
    return len(text) <= longest and not _CONTROL.search(text)


def invisible_in(text: str) -> str:
    """Return the first invisible character of a text, such as `U+202E`; empty if there is none.

    These are control characters, ends of lines, and what has no width or turns the direction.
    """
    found = next((each for each in text if unicodedata.category(each) in _INVISIBLE), "")
    return f"U+{ord(found):04X}" if found else ""


def without_invisible(text: str) -> str:
    """Return a text without its invisible characters."""
    return "".join(each for each in text if unicodedata.category(each) not in _INVISIBLE)


def bare_line(text: str, longest: int) -> str:
    """Return a text as one line of at most `longest` characters, without control characters."""
    return " ".join(_CONTROL.sub(" ", text).split())[:longest]
