"""Names that would be more than names: refused wherever one of an app or executor comes in."""

import re
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tests.support.console import Visit
from warren.broker import codec, topology
from warren.broker.errors import Malformed
from warren.broker.messages import Heartbeat, Load
from warren.cli import root
from warren.scheduler.jobs import rules
from warren.sql.engine import Database
from warren.sql.registry import apps

#: Patterns and separators of the broker, ways out of a folder, too long, look-alikes, expressions.
BAD = [
    *("warren.#", "*", "#", "..", "../..", "a/b", "a b", "", "a\0b", "a\nb", "name\n"),
    *("x" * 300, "n\u0430me", "n\uff41me", "name\u200b", "\u202ename", "(a+)+$", "[a-z]", "a|b"),
    *("a'b", 'a"b', "<b>name", "{{7*7}}", "$(id)", "`id`", "%2e%2e", "~root"),
]


def test_no_form_takes_one(admin: Visit, database: Database) -> None:
    for name in BAD:
        app: dict[str, Any] = {"title": "A title", "mode": "automatic", "app_name": name}
        user = {"username": name, "password": "a password for it", "role": "viewer"}

        assert admin.post("/apps/add", app).status_code == 422, name
        assert admin.post("/users/add", user | {"apps": "reports"}).status_code == 422, name
        # Spaces part the addresses of a list.
        if name.split() == [name]:
            listed = app | {"app_name": "fresh", "mode": "listed", "addresses": name}
            assert admin.post("/apps/add", listed).status_code == 422, name
    assert set(database.read(apps.ids_by_name)) == {"reports", "mails"}


def test_the_form_says_that_a_name_is_a_path_of_the_api(admin: Visit) -> None:
    form = {"title": "A title", "mode": "automatic", "app_name": "by-id"}

    page = admin.post("/apps/add", form)

    assert page.status_code == 422
    assert "that is a path of the HTTP API" in page.text


@pytest.mark.parametrize("name", BAD)
def test_no_message_and_no_queue_has_one(name: str) -> None:
    good = {"app": "reports", "address": "one", "boot_id": "b1", "started_at_ms": 1, "handlers": []}
    good["load"] = msgspec.to_builtins(Load(cpu_percent=0, memory_percent=0, slots=1, running=0))
    for field in ("app", "address", "boot_id"):
        body = msgspec.json.encode({"type": "Heartbeat"} | good | {field: name})
        with pytest.raises(Malformed):
            codec.decode(body, Heartbeat)
    for names in ((name, "one", "b1"), ("reports", name, "b1"), ("reports", "one", name)):
        with pytest.raises(ValueError, match=r"expected (app|address|boot id) to be "):
            topology.command_queue(*names)


def test_the_message_of_the_test_above_is_a_good_one_but_for_its_name() -> None:
    load = Load(cpu_percent=0, memory_percent=0, slots=1, running=0)
    beat = Heartbeat(app="reports", address="one", boot_id="b1", started_at_ms=1, load=load)

    assert codec.decode(codec.encode(beat), Heartbeat) == beat


@pytest.mark.usefixtures("restored_logs")
@pytest.mark.parametrize("name", BAD)
def test_no_job_file_and_no_command_takes_one(name: str) -> None:
    with pytest.raises(ValueError, match="expected app to be a name"):
        rules.check_app_name(name)
    wrong, *_ = rules.address_problems([name])
    assert str(wrong).startswith("expected addresses to be names")
    if "\0" in name:
        return  # no command line can hold one
    for arguments in (("--app", name), ("--app", "reports", "--address", name)):
        if arguments[-1] == "":
            continue  # an empty address is none: the default one
        result = CliRunner().invoke(root, ["executor", *arguments, "handlers.py"])
        assert re.search("expected (app|address) to be ", f"{result.exception}{result.output}")
