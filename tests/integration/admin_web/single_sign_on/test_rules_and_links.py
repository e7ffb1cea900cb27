"""Rules for groups on their page, and users who are linked to identities."""

import re
from dataclasses import replace

import pytest

from tests.support.console import Visit, signed_in
from tests.support.oidc_provider import Faults
from tests.support.sso import SsoConsole, is_in
from warren.scheduler.commands.identity_commands import NOTHING, rights_by
from warren.scheduler.imports.importer import UserImport
from warren.scheduler.imports.items import ImportedUser
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts.users import Rights, Role
from warren.sql.registry import apps


def preview(admin: Visit, **fields: str) -> str:
    """Return the page that says what a rule would change."""
    admin.get("/users/groups")
    return admin.post("/users/groups/preview", fields).text


def digest_of(page: str) -> str:
    found = re.search(r'name="digest" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]


@pytest.fixture
def admin(console: SsoConsole) -> Visit:
    """A browser in which the administrator with a password has signed in."""
    return signed_in(console.app, "admin")


class TestRights:
    @pytest.mark.parametrize(
        ("groups", "rights"),
        [
            ((), NOTHING),
            (("unknown",), NOTHING),
            (("guests",), Rights(role=Role.VIEWER, app_ids=(1, 2))),
            (("data", "guests"), Rights(role=Role.OPERATOR, app_ids=(3,))),
            (("data", "mail"), Rights(role=Role.OPERATOR, app_ids=(3, 4))),
            (("data", "glue"), Rights(role=Role.OPERATOR, app_ids=(5,), may_edit_glue=True)),
            (("guests", "boss"), Rights(role=Role.ADMINISTRATOR, may_edit_glue=True)),
            (("DATA",), NOTHING),
        ],
    )
    def test_the_highest_role_counts_and_its_apps_add_up(
        self, groups: tuple[str, ...], rights: Rights
    ) -> None:
        rules = {
            "boss": Rights(role=Role.ADMINISTRATOR, may_edit_glue=True),
            "glue": Rights(role=Role.OPERATOR, app_ids=(5,), may_edit_glue=True),
            "data": Rights(role=Role.OPERATOR, app_ids=(3,)),
            "mail": Rights(role=Role.OPERATOR, app_ids=(4,)),
            "guests": Rights(role=Role.VIEWER, app_ids=(1, 2)),
        }

        assert rights_by(rules, groups) == rights


class TestPage:
    def test_a_rule_is_shown_with_whose_rights_it_changes_before_it_holds(
        self, console: SsoConsole, admin: Visit
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        olga = console.visit()
        console.sign_in(olga, "olga")

        page = preview(admin, group="data", role="operator", apps="mails")

        assert "olga" in page
        assert console.rights("olga").role is Role.VIEWER
        fields = {"group": "data", "role": "operator", "apps": "mails", "digest": digest_of(page)}
        assert admin.post("/users/groups/apply", fields).status_code == 303
        assert console.rights("olga").role is Role.OPERATOR
        assert not is_in(olga)
        assert ("admin", "rules.apply", "1 rules") in console.audited()
        assert ("admin", "user.rights", "olga") in console.audited()

    def test_what_has_changed_since_is_shown_again(self, console: SsoConsole, admin: Visit) -> None:
        page = preview(admin, group="data", role="viewer", apps="mails")
        console.rule("others", Role.VIEWER, "reports")
        fields = {"group": "data", "role": "viewer", "apps": "mails", "digest": digest_of(page)}

        answer = admin.post("/users/groups/apply", fields)

        assert answer.status_code == 409
        assert "have changed since this was shown" in answer.text
        assert [*console.commands.rules.present()] == ["others"]

    def test_a_rule_that_goes_takes_its_rights_along_with_tokens_and_sessions(
        self, console: SsoConsole, admin: Visit
    ) -> None:
        console.rule("data", Role.VIEWER, "reports")
        console.provider.add("olga", "data")
        olga = console.visit()
        console.sign_in(olga, "olga")

        page = preview(admin, group="data", remove="1")
        admin.post(
            "/users/groups/apply", {"group": "data", "remove": "1", "digest": digest_of(page)}
        )

        assert console.rights("olga") == NOTHING
        assert not is_in(olga)
        assert console.sign_in(olga, "olga").status_code == 403

    def test_the_audit_log_has_rules_in_words_and_no_apps_for_whoever_has_none(
        self, console: SsoConsole, admin: Visit
    ) -> None:
        console.rule("data_team", Role.OPERATOR, "reports", "mails", glue=True)
        console.rule("role", Role.ADMINISTRATOR)
        console.provider.add("olga", "role")
        console.sign_in(console.visit(), "olga")
        console.commands.rules.apply({})

        page = admin.get("/audit").text

        assert "<ins>operator · reports, mails · can edit scripts</ins>" in page
        assert '<th scope="row">data_team</th>' in page
        assert "<ins>administrator</ins>" in page
        assert "<td><del>all</del></td><td><ins>none</ins></td>" in page

    def test_an_invalid_rule_says_what_is_wrong(self, admin: Visit) -> None:
        page = preview(admin, group="data", role="viewer")

        assert "Choose at least one app." in page

    def test_spaces_that_were_pasted_around_a_group_do_not_count(
        self, console: SsoConsole, admin: Visit
    ) -> None:
        page = preview(admin, group=" data ", role="viewer", apps="reports")
        fields = {"group": " data ", "role": "viewer", "apps": "reports", "digest": digest_of(page)}

        admin.post("/users/groups/apply", fields)

        assert [*console.commands.rules.present()] == ["data"]

    def test_the_page_lists_the_rules_and_fills_in_the_one_to_change(
        self, console: SsoConsole, admin: Visit
    ) -> None:
        console.rule("data", Role.OPERATOR, "reports", glue=True)

        page = admin.get("/users/groups?group=data").text

        assert "can edit scripts" in page
        assert 'value="data"' in page

    def test_an_app_that_is_deleted_leaves_the_rules(self, console: SsoConsole) -> None:
        console.rule("data", Role.VIEWER, "reports", "mails")
        console.rule("mail", Role.VIEWER, "mails")

        console.commands.apps.delete(console.database.read(apps.ids_by_name)["mails"])

        left = console.commands.rules.present()
        assert {group: len(rights.app_ids) for group, rights in left.items()} == {"data": 1}


class TestLinks:
    def test_users_link_themselves_and_have_the_rights_of_their_groups_from_then_on(
        self, console: SsoConsole
    ) -> None:
        console.rule("data", Role.VIEWER, "mails")
        console.provider.add("olga", "data")
        visit = signed_in(console.app, "operator")
        visit.get("/account")
        page = visit.post("/account/identity/link").text
        found = re.search(r'href="(http://127[^"]+)"', page)
        assert found is not None
        url = found[1].replace("&amp;", "&")
        assert "prompt=login" in url

        answer = visit.get(console.way_back(url, "olga"))

        assert answer.status_code == 303
        assert is_in(visit)
        assert console.rights("operator").role is Role.VIEWER
        assert console.user("olga") is None
        assert ("operator", "identity.link", "operator") in console.audited()
        assert console.visit().sign_in("operator").status_code == 401

    def test_the_list_of_users_says_who_is_linked_to_which_identity(
        self, console: SsoConsole, admin: Visit
    ) -> None:
        console.rule("data", Role.VIEWER, "mails")
        console.provider.add("olga", "data")
        self.linked(console, signed_in(console.app, "operator"), "olga")

        page = admin.get("/users").text
        exported = admin.get("/users?format=json").json

        assert re.search(
            r'data-label="Single sign-on"><span class="mono">subject-of-olga</span>', page
        )
        assert {user["name"]: user["identity"] for user in exported if user["identity"]} == {
            "operator": "subject-of-olga"
        }

    def test_an_old_sign_in_at_the_provider_links_nothing(self, console: SsoConsole) -> None:
        console.rule("data", Role.VIEWER, "mails")
        console.provider.add("olga", "data")
        console.provider.faults = Faults(session_seconds=301)
        visit = signed_in(console.app, "operator")

        answer = self.linked(console, visit, "olga")

        assert answer == 401
        assert console.rights("operator").role is Role.OPERATOR

    def test_what_one_user_began_another_cannot_end(self, console: SsoConsole) -> None:
        console.rule("data", Role.VIEWER, "mails")
        console.provider.add("olga", "data")
        visit = signed_in(console.app, "operator")
        visit.get("/account")
        found = re.search(r'href="(http://127[^"]+)"', visit.post("/account/identity/link").text)
        assert found is not None
        back = console.way_back(found[1].replace("&amp;", "&"), "olga")
        visit.post("/logout")

        assert visit.get(back).status_code in (400, 401)
        assert not [entry for entry in console.audited() if entry[1] == "identity.link"]

    def test_without_a_rule_nothing_is_linked(self, console: SsoConsole) -> None:
        console.provider.add("olga", "data")
        visit = signed_in(console.app, "operator")

        self.linked(console, visit, "olga")

        assert "would lose all rights" in visit.get("/account").text
        assert console.rights("operator").role is Role.OPERATOR

    def test_the_last_administrator_with_a_password_is_not_linked(
        self, console: SsoConsole, admin: Visit
    ) -> None:
        console.rule("data", Role.ADMINISTRATOR)
        console.provider.add("olga", "data")
        console.sign_in(console.visit(), "olga")
        console.provider.add("boss", "data")

        self.linked(console, admin, "boss")

        assert "is the only administrator with a password" in admin.get("/account").text

    def test_an_administrator_links_and_unlinks_a_user(
        self, console: SsoConsole, admin: Visit
    ) -> None:
        console.rule("data", Role.VIEWER, "mails")
        console.provider.add("olga", "data", subject="1234")
        operator = console.user("operator")
        assert operator is not None
        path = f"/users/{operator.id}"
        admin.get(path)

        assert admin.post(f"{path}/identity/link", {"subject": "1234"}).status_code == 303

        visit = console.visit()
        assert console.sign_in(visit, "olga").status_code == 303
        assert console.rights("operator").role is Role.VIEWER
        assert "1234" in admin.get(path).text
        assert admin.post(f"{path}/identity/unlink").status_code == 303
        assert not is_in(visit)
        assert console.visit().sign_in("operator").status_code == 303

    def test_rights_of_a_linked_user_are_not_changed_by_hand(self, console: SsoConsole) -> None:
        console.rule("data", Role.VIEWER, "mails")
        console.provider.add("olga", "data")
        console.sign_in(console.visit(), "olga")
        user = console.user("olga")
        assert user is not None

        with pytest.raises(Problem) as caught:
            console.commands.users.set_rights(user.id, Rights(role=Role.ADMINISTRATOR))

        assert caught.value.code is Code.RIGHTS_BY_RULES

    def test_a_linked_user_gets_a_password_only_once_it_is_unlinked(
        self, console: SsoConsole
    ) -> None:
        operator = console.user("operator")
        assert operator is not None
        console.commands.identities.link(operator.id, console.provider.issuer, "1234")

        with pytest.raises(Problem) as caught:
            console.commands.users.set_password(operator.id, "a sentence is fine")

        assert caught.value.code is Code.PASSWORD_OF_LINKED
        console.commands.identities.unlink(operator.id)
        console.commands.users.set_password(operator.id, "a sentence is fine")
        assert console.visit().sign_in("operator", "a sentence is fine").status_code == 303

    def test_an_import_leaves_the_rights_of_a_linked_user_alone(self, console: SsoConsole) -> None:
        app_ids = console.database.read(apps.ids_by_name)
        source = UserImport(console.commands.context, "other", overwrite=True)
        item = ImportedUser(source_id=1, name="imported", role=Role.VIEWER, app_ids=(5,))
        source.write([item], {5: app_ids["mails"]}, None)
        imported = console.user("imported")
        assert imported is not None
        console.commands.identities.link(imported.id, console.provider.issuer, "1234")

        [outcome] = source.write([replace(item, role=Role.ADMINISTRATOR)], {}, None)

        assert "rules of single sign-on" in str(outcome)
        assert console.rights("imported").role is Role.VIEWER

    def test_a_user_who_is_deleted_comes_back_as_a_new_one(self, console: SsoConsole) -> None:
        console.rule("data", Role.VIEWER, "mails")
        console.provider.add("olga", "data")
        console.sign_in(console.visit(), "olga")
        first = console.user("olga")
        assert first is not None
        console.commands.users.delete(first.id)

        console.sign_in(console.visit(), "olga")

        second = console.user("olga")
        assert second is not None
        assert second.id != first.id

    def linked(self, console: SsoConsole, visit: Visit, name: str) -> int:
        """Try to link whoever uses a browser; return the status at the end."""
        visit.get("/account")
        found = re.search(r'href="(http://127[^"]+)"', visit.post("/account/identity/link").text)
        assert found is not None
        return visit.get(console.way_back(found[1].replace("&amp;", "&"), name)).status_code


class TestLastAdministrator:
    def test_administrators_by_groups_do_not_make_the_last_one_with_a_password_dispensable(
        self, console: SsoConsole
    ) -> None:
        console.rule("boss", Role.ADMINISTRATOR)
        console.provider.add("olga", "boss")
        console.sign_in(console.visit(), "olga")
        admin = console.user("admin")
        assert admin is not None

        for act in (
            lambda: console.commands.users.disable(admin.id),
            lambda: console.commands.users.delete(admin.id),
            lambda: console.commands.users.set_rights(
                admin.id, Rights(role=Role.VIEWER, app_ids=(1,))
            ),
        ):
            with pytest.raises(Problem) as caught:
                act()
            assert caught.value.code is Code.LAST_ADMINISTRATOR

    def test_groups_take_access_but_not_the_role_from_the_last_one_of_all(
        self, console: SsoConsole
    ) -> None:
        console.rule("boss", Role.ADMINISTRATOR)
        console.provider.add("olga", "boss")
        visit = console.visit()
        console.sign_in(visit, "olga")
        admin = console.user("admin")
        assert admin is not None
        with console.database.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE xxl_job_user SET is_disabled = 1 WHERE id = 1")
        console.provider.people["olga"].groups = []
        console.clock.pass_seconds(300)

        console.reader.run_round()

        assert console.rights("olga").role is Role.ADMINISTRATOR
        assert not is_in(visit)
        console.provider.faults = Faults()
        assert console.sign_in(visit, "olga").status_code == 403
