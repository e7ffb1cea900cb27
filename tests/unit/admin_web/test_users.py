"""Users as pages: what an administrator may do to them, and what nobody may."""

from typing import Any

import pytest
from flask import Flask, request
from sqlalchemy import select

from tests.support.acting import NamedUsers
from tests.support.console import PASSWORD, Visit, add_user, signed_in
from warren.sql.accounts import users
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.models import AuditEntry, User

FRESH = "a wholly new password"


def user(database: Database, name: str) -> User | None:
    return database.read(lambda session: users.by_name(session, name))


def id_of(database: Database, name: str) -> int:
    found = user(database, name)
    assert found is not None
    return found.id


def new_user(**fields: Any) -> dict[str, Any]:
    return {"username": "fresh", "password": FRESH, "role": "viewer", "apps": ["reports"]} | fields


class TestAdding:
    def test_new_user_signs_in_once_and_then_chooses_a_password(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        answer = admin.post("/users/add", new_user(role="operator", may_edit_glue="y"))

        found = user(database, "fresh")
        assert answer.status_code == 303
        assert found is not None
        rights = users.rights_of(found)
        assert (rights.role, rights.may_edit_glue, len(rights.app_ids)) == (Role.OPERATOR, True, 1)
        visit = Visit(app)
        assert visit.sign_in("fresh", FRESH).status_code == 303
        assert visit.get("/").headers["Location"] == "/account"

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"username": ""}, "Required."),
            ({"username": "abc"}, "A name has 4 to 50"),
            ({"username": "a" * 51}, "A name has 4 to 50"),
            ({"username": "fresh\n"}, "A name has 4 to 50"),
            ({"username": "<img src=x>"}, "A name has 4 to 50"),
            ({"username": "operator"}, "This user name is taken."),
            ({"username": "OPERATOR"}, "This user name is taken."),
            ({"password": "short"}, "Use 8 to 200 characters."),
            ({"password": "x" * 201}, "Use 8 to 200 characters."),
            ({"password": "Password1"}, "This password is too common"),
            ({"username": "freshfresh", "password": "FreshFresh"}, "cannot be the user name"),
            ({"apps": []}, "Choose at least one app."),
            ({"apps": ["nowhere"]}, "field-error"),
            ({"role": "king"}, "field-error"),
            ({"may_edit_glue": "y"}, "Viewers cannot edit anything"),
        ],
    )
    def test_bad_input_is_told_beside_its_field_and_makes_nobody(
        self, admin: Visit, database: Database, fields: dict[str, Any], words: str
    ) -> None:
        wanted = new_user(**fields)

        answer = admin.post("/users/add", wanted)

        assert answer.status_code == 422
        assert words in answer.text
        assert "<img src=x>" not in answer.text
        assert len(database.read(users.listing)) == 5
        assert wanted["password"] not in answer.text

    def test_what_was_typed_is_kept(self, admin: Visit) -> None:
        answer = admin.post("/users/add", new_user(password="short"))

        assert 'value="fresh"' in answer.text
        assert 'value="reports" checked' in answer.text


class TestListing:
    def test_users_are_found_by_role_and_by_a_part_of_the_name(self, admin: Visit) -> None:
        operators = admin.get("/users?role=operator").text
        named = admin.get("/users?name=scr").text

        assert "operator</strong>" in operators
        assert "viewer</strong>" not in operators
        assert "scripter</strong>" in named
        assert "stranger</strong>" not in named

    def test_the_wildcards_of_the_database_are_letters_here(self, admin: Visit) -> None:
        assert "No matching users." in admin.get("/users?name=%25").text

    def test_a_long_list_goes_on_by_name(self, admin: Visit, database: Database) -> None:
        def fill(session: Any) -> None:
            session.add_all(
                User(name=f"zz-{number:03}", password="!", role=int(Role.VIEWER))
                for number in range(60)
            )

        database.write(fill)

        first = admin.get("/users").text
        second = admin.get("/users?after=zz-044").text

        assert "/users?after=zz-044" in first
        assert "zz-045</strong>" not in first
        assert "zz-045</strong>" in second
        assert "after=" not in second

    def test_unknown_role_is_refused(self, admin: Visit) -> None:
        assert admin.get("/users?role=king").status_code == 422


class TestRights:
    def test_other_rights_end_every_sign_in(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        other = signed_in(app, "viewer")
        path = f"/users/{id_of(database, 'viewer')}/rights"

        answer = admin.post(path, {"role": "operator", "apps": ["mails", "reports"]})

        found = user(database, "viewer")
        assert answer.status_code == 303
        assert found is not None
        assert users.rights_of(found).role is Role.OPERATOR
        assert other.get("/").headers["Location"].startswith("/login")

    def test_nobody_changes_their_own_rights(self, admin: Visit, database: Database) -> None:
        path = f"/users/{id_of(database, 'admin')}/rights"

        answer = admin.post(path, {"role": "viewer", "apps": ["reports"]})

        found = user(database, "admin")
        assert answer.status_code == 409
        assert "your own user" in answer.text
        assert found is not None
        assert found.role == Role.ADMINISTRATOR

    def test_the_last_administrator_stays_one(self, app: Flask, database: Database) -> None:
        add_user(database, "second", Role.ADMINISTRATOR)
        first, second = signed_in(app, "admin"), signed_in(app, "second")

        first.post(
            f"/users/{id_of(database, 'second')}/rights", {"role": "viewer", "apps": ["mails"]}
        )
        answer = second.post(f"/users/{id_of(database, 'admin')}/delete")

        assert answer.status_code == 401
        assert user(database, "admin") is not None

    def test_rights_without_an_app_are_refused_beside_the_field(
        self, admin: Visit, database: Database
    ) -> None:
        answer = admin.post(f"/users/{id_of(database, 'viewer')}/rights", {"role": "operator"})

        assert answer.status_code == 422
        assert "Choose at least one app." in answer.text


class TestPassword:
    def test_reset_ends_every_sign_in_and_must_be_changed(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        other = signed_in(app, "viewer")

        admin.post(f"/users/{id_of(database, 'viewer')}/password", {"password": FRESH})

        assert other.get("/").headers["Location"].startswith("/login")
        assert Visit(app).sign_in("viewer", PASSWORD).status_code == 401
        again = Visit(app)
        again.sign_in("viewer", FRESH)
        assert again.get("/").headers["Location"] == "/account"

    @pytest.mark.parametrize("password", ["", "short", "x" * 201, "viewer", "qwertyuiop"])
    def test_unfit_password_changes_nothing(
        self, app: Flask, admin: Visit, database: Database, password: str
    ) -> None:
        path = f"/users/{id_of(database, 'viewer')}/password"

        assert admin.post(path, {"password": password}).status_code == 422
        assert Visit(app).sign_in("viewer", PASSWORD).status_code == 303

    def test_own_password_is_changed_on_the_account_page(
        self, admin: Visit, database: Database
    ) -> None:
        path = f"/users/{id_of(database, 'admin')}/password"

        assert admin.post(path, {"password": FRESH}).status_code == 422


class TestDisabling:
    def test_disabled_user_is_signed_out_at_once_and_cannot_sign_in(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        other = signed_in(app, "operator")

        answer = admin.post(f"/users/{id_of(database, 'operator')}/disable")

        assert answer.status_code == 303
        assert other.get("/jobs").headers["Location"].startswith("/login")
        assert other.post("/jobs/start").status_code == 401
        refused = Visit(app).sign_in("operator")
        assert refused.status_code == 401
        assert "Wrong user name or password." in refused.text
        assert "disabled" in admin.get("/users").text

    def test_enabled_user_signs_in_again_and_no_cookie_of_before_counts(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        other, path = signed_in(app, "operator"), f"/users/{id_of(database, 'operator')}"

        admin.post(f"{path}/disable")
        admin.post(f"{path}/enable")

        assert other.get("/jobs").headers["Location"].startswith("/login")
        assert Visit(app).sign_in("operator").status_code == 303

    def test_both_are_in_the_trail(self, admin: Visit, database: Database) -> None:
        path = f"/users/{id_of(database, 'operator')}"

        admin.post(f"{path}/disable")
        admin.post(f"{path}/enable")

        page = admin.get("/audit?kind=user").text
        assert "disabled user" in page
        assert "enabled user" in page

    @pytest.mark.parametrize("deed", ["disable", "delete", "rights"])
    def test_last_administrator_stays_when_two_unmake_each_other_at_once(
        self, app: Flask, database: Database, deed: str
    ) -> None:
        """The second request has passed the gate when the first takes its sender's rights."""
        add_user(database, "second", Role.ADMINISTRATOR)
        passed: list[str] = []

        @app.before_request  # which comes after the gate, as the console has set that up
        def disable_sender() -> None:
            if request.path.endswith(f"/{deed}"):
                passed.append(request.path)
                NamedUsers(database, who="second").disable("admin")

        first = signed_in(app, "admin")
        form = {"role": "viewer", "apps": ["mails"]}
        answer = first.post(f"/users/{id_of(database, 'second')}/{deed}", form)

        assert len(passed) == 1
        assert answer.status_code == 409
        assert "the only administrator who can sign in" in answer.text
        found = user(database, "second")
        assert found is not None
        assert (found.role, found.is_disabled) == (Role.ADMINISTRATOR, 0)

    @pytest.mark.parametrize("deed", ["disable", "enable"])
    def test_nobody_does_it_to_themselves(
        self, admin: Visit, database: Database, deed: str
    ) -> None:
        add_user(database, "second", Role.ADMINISTRATOR)

        answer = admin.post(f"/users/{id_of(database, 'admin')}/{deed}")

        assert answer.status_code == 409
        assert "your own user" in answer.text


class TestDeleting:
    def test_deleted_user_is_signed_out_and_stays_in_the_trail(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        other = signed_in(app, "stranger")

        answer = admin.post(f"/users/{id_of(database, 'stranger')}/delete")

        assert answer.status_code == 303
        assert user(database, "stranger") is None
        assert other.get("/").headers["Location"].startswith("/login")
        noted = database.read(
            lambda session: session.execute(
                select(AuditEntry).where(AuditEntry.action == "user.delete")
            ).scalar_one()
        )
        assert (noted.who, noted.name) == ("admin", "stranger")

    def test_nobody_deletes_themselves(self, admin: Visit, database: Database) -> None:
        add_user(database, "second", Role.ADMINISTRATOR)

        answer = admin.post(f"/users/{id_of(database, 'admin')}/delete")

        assert answer.status_code == 409
        assert user(database, "admin") is not None

    def test_unknown_user_is_404(self, admin: Visit) -> None:
        assert admin.get("/users/999").status_code == 404
        assert admin.post("/users/999/delete").status_code == 404


def test_all_that_is_wrong_with_a_new_user_is_told_at_once(admin: Visit) -> None:
    page = admin.post(
        "/users/add",
        {"username": "a b", "password": "short", "role": "viewer", "may_edit_glue": "y"},
    ).text

    for field in ("username", "password", "apps", "may_edit_glue"):
        assert f'id="{field}-error"' in page
