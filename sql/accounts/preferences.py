"""The favourite jobs and saved filters of users."""

from typing import NamedTuple

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore
from warren.sql.models import Favourite, SavedFilter
from warren.sql.rows import fetch, query

#: How many favourites and filters a user may have, which bounds their queries.
MAX_FAVOURITES, MAX_FILTERS = 500, 50


class NamedFilter(NamedTuple):
    """A saved filter; `query` is the query string of its link."""

    id: int
    name: str
    query: str


def favourites(user_id: int) -> Select[int]:
    """Return the query of the ids of a user's favourite jobs, some of which may be deleted."""
    return select(Favourite.job_id).where(Favourite.user_id == user_id)


def is_favourite(session: Session, user_id: int, job_id: int) -> bool:
    return session.get(Favourite, (user_id, job_id)) is not None


def set_favourite(session: Session, user_id: int, job_id: int, *, is_on: bool) -> bool:
    """Add or remove a favourite; return False if there would be too many."""
    if not is_on:
        session.execute(
            delete(Favourite).where(Favourite.user_id == user_id, Favourite.job_id == job_id)
        )
        return True
    count = select(func.count()).select_from(Favourite).where(Favourite.user_id == user_id)
    if session.execute(count).scalar_one() >= MAX_FAVOURITES:
        return False
    row = {"user_id": user_id, "job_id": job_id}
    insert_or_ignore(session, Favourite, [row], key="job_id")
    return True


def filters(session: Session, user_id: int, page: str) -> list[NamedFilter]:
    """Return a user's filters for a page, by name."""
    mine = query(NamedFilter, SavedFilter).where(
        SavedFilter.user_id == user_id, SavedFilter.page == page
    )
    return fetch(session, NamedFilter, mine.order_by(SavedFilter.name).limit(MAX_FILTERS))


def save_filter(session: Session, user_id: int, page: str, name: str, text: str) -> bool:
    """Save a filter, replacing one of that name; return False if there would be too many."""
    saved = session.execute(
        select(SavedFilter).where(
            SavedFilter.user_id == user_id, SavedFilter.page == page, SavedFilter.name == name
        )
    ).scalar_one_or_none()
    if saved is not None:
        saved.query = text
        return True
    if len(filters(session, user_id, page)) >= MAX_FILTERS:
        return False
    row = {"user_id": user_id, "page": page, "name": name, "query": text}
    insert_or_ignore(session, SavedFilter, [row])
    return True


def forget_filter(session: Session, user_id: int, filter_id: int) -> None:
    session.execute(
        delete(SavedFilter).where(SavedFilter.id == filter_id, SavedFilter.user_id == user_id)
    )


def forget_user(session: Session, user_id: int) -> None:
    """Delete all favourites and filters of a user."""
    for model in (Favourite, SavedFilter):
        session.execute(delete(model).where(model.user_id == user_id))


def forget_job(session: Session, job_id: int) -> None:
    """Remove a job from all users' favourites."""
    session.execute(delete(Favourite).where(Favourite.job_id == job_id))
