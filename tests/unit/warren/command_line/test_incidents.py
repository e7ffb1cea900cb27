"""`warren incidents`: what is not as expected, and who has seen it."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result
from sqlalchemy.orm import Session

from tests.support.stored_rows import Rows
from warren.cli import root
from warren.sql.models import Incident

OPENED_MS = 1_795_183_200_000


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    facts = {"job_id": rows.job("nightly"), "app_id": rows.app(), "expected": "07:00"}
    times = {"opened_at": OPENED_MS, "remind_at": OPENED_MS}
    kept = {"is_open": 0, "closed_at": OPENED_MS, "closed_by": "KEPT"}

    def unit(session: Session) -> None:
        session.add(Incident(rule="finish_by", due_at=1, **facts, **times))
        session.add(Incident(rule="longest", due_at=2, **facts, **times, **kept))

    rows.database.write(unit)
    yield rows
    rows.database.close()


@pytest.fixture
def warren(rows: Rows, sqlite_schema_url: str) -> Callable[..., Result]:
    url = "--database-url", sqlite_schema_url
    return lambda *arguments: CliRunner().invoke(root, ["incidents", *arguments, *url])


def listed(warren: Callable[..., Result], *arguments: str) -> list[dict[str, object]]:
    lines = warren("list", "--json", *arguments).output.splitlines()
    return [json.loads(line) for line in lines]


def test_open_ones_are_listed_and_closed_ones_on_request(warren: Callable[..., Result]) -> None:
    assert [one["rule"] for one in listed(warren)] == ["finish_by"]
    assert [one["rule"] for one in listed(warren, "--all")] == ["longest", "finish_by"]
    assert "07:00" in warren("list").output


def test_one_is_acknowledged_with_a_note_and_shown(warren: Callable[..., Result]) -> None:
    [found] = listed(warren)

    done = warren("ack", str(found["id"]), "--note", "waiting for the bank", "--for", "4h")

    assert done.output == f"incident {found['id']} is acknowledged\n"
    assert "waiting for the bank" in warren("show", str(found["id"])).output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ack", "999"), "no incident with id 999"),
        (("ack", "1", "--for", "soon"), "soon"),
        (("ack", "1", "--for", "1h", "--until", "2027-01-01"), "only one of --until and --for"),
        (("show", "999"), "no incident with id 999"),
    ],
)
def test_what_cannot_be_is_one_line(
    warren: Callable[..., Result], arguments: tuple[str, ...], words: str
) -> None:
    refused = warren(*arguments)

    assert refused.exit_code != 0
    assert words in refused.output + str(refused.exception)
