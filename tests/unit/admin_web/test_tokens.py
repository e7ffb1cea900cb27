"""The console's page for tokens: one's own, shown once, revoked at once."""

import json
import re
from typing import Any

from flask import Flask

from tests.support.console import Clock, Visit, signed_in
from warren.scheduler.commands.token_text import is_token
from warren.sql.accounts import tokens
from warren.sql.engine import Database
from warren.sql.instants import iso

NEW = {"token_name": "deploy", "scopes": ["read", "trigger"], "apps": ["reports"], "days": "30"}


def test_a_token_is_shown_this_once(app: Flask, database: Database) -> None:
    operator = signed_in(app, "operator")

    made = operator.post("/tokens/add", NEW)

    found = re.search(r'<code id="fresh-token">(wrn_\S+)</code>', made.text)
    assert found is not None
    assert is_token(found[1])
    [listed] = database.read(tokens.listing)
    assert (listed.token.scopes, listed.owner.name) == ("read,trigger", "operator")  # type: ignore[union-attr]
    shown = operator.get("/tokens").text
    assert "deploy" in shown
    assert found[1] not in shown


def test_a_token_gets_a_ready_made_set_of_rights_that_its_owner_has(
    app: Flask, database: Database
) -> None:
    operator, viewer = signed_in(app, "operator"), signed_in(app, "viewer")
    new = {"token_name": "ci", "rights": "operate", "scopes": ["write"], "days": "30"}

    refused = viewer.post("/tokens/add", new)
    made = operator.post("/tokens/add", new)
    nothing = operator.post("/tokens/add", NEW | {"token_name": "none", "scopes": []})

    assert (refused.status_code, made.status_code, nothing.status_code) == (422, 200, 422)
    assert 'value="watch"' in refused.text
    assert 'value="operate"' not in refused.text
    [listed] = database.read(tokens.listing)
    assert listed.token.scopes == "read,logs,trigger,operate"
    assert "in 30 days" in made.text
    assert "Choose at least one." in nothing.text


def test_nobody_is_offered_more_than_they_may(app: Flask) -> None:
    viewer = signed_in(app, "viewer")

    page = viewer.get("/tokens").text
    refused = viewer.post("/tokens/add", NEW)

    assert 'value="read"' in page
    assert 'value="trigger"' not in page
    assert refused.status_code == 422


def test_a_name_is_never_given_twice(app: Flask) -> None:
    operator = signed_in(app, "operator")
    operator.post("/tokens/add", NEW)

    again = operator.post("/tokens/add", NEW)

    assert again.status_code == 422
    assert "already" in again.text


def test_tokens_of_others_are_an_administrators_business(
    app: Flask, admin: Visit, database: Database
) -> None:
    signed_in(app, "operator").post("/tokens/add", NEW)
    [listed] = database.read(tokens.listing)
    scripter = signed_in(app, "scripter")

    assert "<strong>deploy" not in scripter.get("/tokens").text
    assert scripter.post(f"/tokens/{listed.token.id}/revoke").status_code == 403
    assert "<strong>deploy" in admin.get("/tokens").text
    assert admin.post(f"/tokens/{listed.token.id}/revoke").status_code == 303
    [revoked] = database.read(tokens.listing)
    assert revoked.token.revoked_by == "admin"


def test_page_and_file_say_when_and_from_where_a_token_was_used(
    app: Flask, database: Database, clock: Clock
) -> None:
    operator = signed_in(app, "operator")
    operator.post("/tokens/add", NEW)
    [listed] = database.read(tokens.listing)
    use: dict[str, Any] = {"now_ms": clock.now - 300_000, "before_ms": 0, "address": "192.0.2.7"}
    database.write(lambda session: tokens.touch(session, listed.token.id, **use))

    page = operator.get("/tokens").text
    [exported] = json.loads(operator.get("/tokens?format=json").text)

    assert "5 min ago" in page
    assert "192.0.2.7" in page
    assert (exported["scopes"], exported["apps"]) == (["read", "trigger"], ["reports"])
    assert exported["used_at"] == iso(clock.now - 300_000)
