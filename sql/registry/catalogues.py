"""What executors can run, by fingerprint; the registry names the fingerprint of each executor."""

from collections.abc import Collection

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from warren.sql.batch import modify
from warren.sql.dialects.supported import of
from warren.sql.models import Registration, StoredCatalogue


def keep(session: Session, fingerprint: str, contents: str, now_ms: int) -> None:
    """Store a catalogue, unless it is stored already."""
    row = {"fingerprint": fingerprint, "contents": contents, "told_at": now_ms}
    insert = of(session).insert_or_ignore(StoredCatalogue, StoredCatalogue.fingerprint)
    session.execute(insert.values(row))


def read(session: Session, fingerprints: Collection[str]) -> dict[str, str]:
    """Return the stored ones among these catalogues, by fingerprint."""
    if not fingerprints:
        return {}
    rows = session.execute(
        select(StoredCatalogue.fingerprint, StoredCatalogue.contents).where(
            StoredCatalogue.fingerprint.in_(sorted(fingerprints))
        )
    )
    return dict(rows.all())


def forget_unused(session: Session, *, before_ms: int) -> int:
    """Delete catalogues stored before an instant that no executor has now; return how many."""
    named = select(Registration.catalogue).where(Registration.catalogue.is_not(None))
    unused = delete(StoredCatalogue).where(
        StoredCatalogue.told_at < before_ms, StoredCatalogue.fingerprint.not_in(named)
    )
    return modify(session, unused)
