"""A Warren whose accounts have the rights that the documentation gives them, and no more.

It is used as people use it, and by people who should not; then its logs, files, pages and tables
are looked at: for what has to be there, and for secrets, which must be nowhere.
"""

import contextlib
import json
import re
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from tests.support.command import run_warren
from tests.support.deployment import SECRET, Deployment
from tests.support.eventually import eventually
from tests.support.mailbox import Mailbox
from tests.support.plain_browser import PlainBrowser
from tests.support.rabbitmq import PrivateRabbit
from tests.support.server_words import ON_POSTGRESQL, DatabaseServer
from tests.support.webhook_server import WebhookServer
from warren.sql.accounts import audit_log, users
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.engine import Database
from warren.sql.models import AuditEntry
from warren.sql.registry import apps
from warren.sql.run_status import RunStatus

OWN_PASSWORD = "0wn-console-passw0rd"
USER_PASSWORD = "f1rst-of-a-new-user"
WRONG_PASSWORD = "wr0ng-guess-passw0rd"
OTHER_PASSWORD = "0ther-after-reset-pw"
FORGED = (
    "(id, at, who, origin, action, kind, object_id, name) VALUES (1, 1, 'x', 'x', 'x', 'x', 1, 'x')"
)
#: What would change the audit log, or let an account change it.
FORGERIES = [
    "UPDATE warren_trail SET who = 'nobody'",
    "DELETE FROM warren_trail",
    "TRUNCATE TABLE warren_trail",
    "DROP TABLE warren_trail",
    "ALTER TABLE warren_trail ADD COLUMN x INT",
]
FORGERIES += (
    [
        f"INSERT INTO warren_trail {FORGED} ON CONFLICT (id) DO UPDATE SET who = 'x'",
        "MERGE INTO warren_trail USING (SELECT 1) AS one ON TRUE WHEN MATCHED THEN DELETE",
        "CREATE TRIGGER a BEFORE INSERT ON warren_trail EXECUTE FUNCTION tsvector_update_trigger()",
        "CREATE RULE forge AS ON INSERT TO warren_trail DO INSTEAD NOTHING",
        "ALTER TABLE warren_trail OWNER TO CURRENT_USER",
        "ALTER ROLE CURRENT_USER SUPERUSER",
    ]
    if ON_POSTGRESQL
    else [
        f"REPLACE INTO warren_trail {FORGED}",
        f"INSERT INTO warren_trail {FORGED} ON DUPLICATE KEY UPDATE who = 'x'",
        "CREATE TRIGGER forge BEFORE INSERT ON warren_trail FOR EACH ROW SET NEW.who = 'x'",
        "GRANT ALL ON *.* TO CURRENT_USER()",
    ]
)
#: How the server says that an account may not do something.
REFUSALS = {"42501"} if ON_POSTGRESQL else {1142, 1044, 1045}
#: The rights of schedulers.
BROKER_RIGHTS = dict.fromkeys(("configure", "write", "read"), r"^warren\.")


@dataclass
class Site:
    """What runs, who visits it, and the secrets that there are."""

    deployment: Deployment
    url: str
    web: PlainBrowser
    account: str
    secrets: dict[str, str] = field(default_factory=dict)
    first_password_line: str = ""
    slow: socket.socket = field(default_factory=socket.socket)

    @property
    def entries(self) -> list[AuditEntry]:
        """The audit log, the last entry first."""
        found = self.deployment.database.read(
            lambda session: audit_log.listing(session, AuditFilter(limit=1_000))
        )
        return list(found)


@pytest.fixture(scope="module")
def site(
    rabbitmq: PrivateRabbit,
    mariadb: DatabaseServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    known = {
        name: f"{name}-{secrets.token_hex(12)}"
        for name in ("database", "broker", "mail", "webhook", "metrics")
    }
    owner, vhost = mariadb.create_database(), rabbitmq.add_vhost()
    broker = f"user-{secrets.token_hex(4)}"
    rabbitmq.add_user(broker, known["broker"], vhost=vhost, **BROKER_RIGHTS)
    folder = tmp_path_factory.mktemp("accounts")
    with (
        Mailbox(login=("mailer", "another password")) as mailbox,
        WebhookServer() as hook,
        Deployment(
            folder,
            database_url=owner,
            broker_url=rabbitmq.vhost_url(vhost, broker, known["broker"]),
            smtp_url=mailbox.url.replace("another password", known["mail"]),
            alarm_emails="ops@example.com",
            alarm_webhook=f"{hook.url}/{known['webhook']}",
            metrics_token=known["metrics"],
            log_level="debug",
        ) as deployment,
    ):
        hook.status = 500
        account = account_of(deployment, mariadb, owner, known["database"])
        started = [deployment.scheduler(), deployment.executor("steady")]
        console = deployment.console()
        line = console.wait_for("admin password: ")
        url = console.wait_for("console: ").split()[1]
        deployment.await_schedulers(started[0])
        deployment.await_executors(started[1])
        site = Site(
            deployment, url, PlainBrowser(url), account, known | {"first": line.rpartition(" ")[2]}
        )
        site.first_password_line = line
        site.slow = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 30)
        site.slow.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\nX-A: ")
        use(site, mariadb)
        site.secrets |= {
            "WARREN_SECRET": SECRET,
            "own": OWN_PASSWORD,
            "user": USER_PASSWORD,
            "wrong": WRONG_PASSWORD,
            "other": OTHER_PASSWORD,
        }
        yield site
        site.slow.close()


def account_of(deployment: Deployment, mariadb: DatabaseServer, owner: str, password: str) -> str:
    """Make the account that the documentation describes, and let everything use it."""
    user, url = f"warren_{secrets.token_hex(4)}", make_url(owner)
    account = mariadb.add_role(user, password)
    for statement in deployment.warren("db", "grants", user, "--host", "127.0.0.1").splitlines():
        mariadb.execute(statement, database=url.database)
    of_user = url.set(username=user, password=password)
    deployment.env["WARREN_DATABASE_URL"] = of_user.render_as_string(hide_password=False)
    return account


def use(site: Site, mariadb: DatabaseServer) -> None:
    """Do what administrators do, what goes wrong, and what nobody should."""
    deployment, web = site.deployment, site.web
    deployment.database.write(lambda session: apps.ensure(session, "demo"))
    PlainBrowser(site.url).sign_in("admin", WRONG_PASSWORD)
    web.sign_in("admin", site.secrets["first"])
    web.post(
        "/account/password",
        present=site.secrets["first"],
        fresh=OWN_PASSWORD,
        again=OWN_PASSWORD,
    )
    for cookie in web.cookies:
        site.secrets[f"cookie {cookie.name}"] = cookie.value or ""
    assert web.get("/").status == 200

    web.post("/users/add", username="bobby", password=USER_PASSWORD, role="viewer", apps="demo")
    user_id = deployment.database.read(lambda session: users.find(session, "bobby")).id
    web.post(f"/users/{user_id}/rights", role="operator", apps="demo", may_edit_glue="y")
    web.post(f"/users/{user_id}/password", password=OTHER_PASSWORD)

    deployment.job("script", handler="", script_language="SHELL", script_source="env; false\n")
    script_id = deployment.job_row("script").id
    script_version = str(deployment.job_row("script").script_version)
    answer = web.post(
        f"/glue/{script_id}/save",
        source="env\nexit 3\n",
        remark="ends badly",
        based_on=script_version,
    )
    assert answer.status == 303
    failed = deployment.trigger("script")
    deployment.await_final(failed)
    deployment.job("hanging", handler="talk")
    hanging = deployment.trigger("hanging")
    deployment.await_status(hanging, RunStatus.RUNNING)
    web.get(f"/runs/{hanging}")
    assert web.post(f"/runs/{hanging}/kill").status == 303
    deployment.await_final(hanging)
    clear(web, deployment)
    look_around(site, failed, script_id)
    command_line(site)
    take_the_database_away(site, mariadb)
    eventually(lambda: deployment.logged("alarm_"))


def clear(web: PlainBrowser, deployment: Deployment) -> None:
    """Clear runs of a job in the console; the others stay."""
    deployment.job("cleared")
    deployment.await_final(deployment.trigger("cleared"))
    web.get("/runs/clear")
    answer = web.post("/runs/clear/start", app="demo", job="cleared", choice="9", is_sure="y")
    assert answer.status == 303
    eventually(lambda: not deployment.runs("cleared"), every=0.05)


def look_around(site: Site, run_id: int, script_id: int) -> None:
    """Open every page there is, and some that there are not."""
    web = site.web
    for path in (
        *("/", "/jobs", "/runs", "/apps", "/executors", "/schedulers", "/users", "/account"),
        *("/audit", "/ledger", "/healthz", "/nothing", f"/runs/{run_id}", f"/runs/{run_id}/log"),
        *(f"/runs/{run_id}/log/download", f"/glue/{script_id}", f"/jobs/{script_id}"),
        *(f"/jobs/{script_id}/edit", f"/jobs/{script_id}/yaml", "/jobs?order=id;drop"),
    ):
        assert web.get(path).status in (200, 404, 422), path
    metrics = {"Authorization": f"Bearer {site.secrets['metrics']}"}
    assert "warren_" in web.get("/metrics", metrics).text
    assert web.get("/metrics").status == 403
    stranger = PlainBrowser(site.url)
    assert stranger.get("/", {"Host": "evil.example"}).status == 400
    assert stranger.post("/login", username="admin", password=WRONG_PASSWORD).status == 403
    web.answers += stranger.answers


def command_line(site: Site) -> None:
    """Run what an operator runs, with the same account."""
    for arguments in (
        ("check",),
        ("jobs", "list"),
        ("runs", "list", "--json"),
        ("alarms", "list"),
        ("users", "disable", "bobby"),
    ):
        done = run_warren(*arguments, folder=site.deployment.folder, env=site.deployment.env)
        (site.deployment.folder / f"command-{'-'.join(arguments)}.log").write_text(
            done.stdout + done.stderr
        )
        assert "(1142" not in done.stdout + done.stderr, arguments
        assert done.returncode == 0 or arguments == ("check",), (arguments, done.stderr)


def take_the_database_away(site: Site, mariadb: DatabaseServer) -> None:
    """Let pages fail, and let them come back."""
    name = site.deployment.database.url.database
    mariadb.execute(f"REVOKE SELECT ON xxl_job_user FROM {site.account}", database=name)
    answer = site.web.get("/users")
    mariadb.execute(f"GRANT SELECT ON xxl_job_user TO {site.account}", database=name)
    assert (answer.status, "Error number: " in answer.text) == (503, True)
    eventually(lambda: site.web.get("/users").status == 200)


class TestTrail:
    @pytest.mark.parametrize(
        ("action", "who", "what"),
        [
            ("session.refuse", "admin", "admin"),
            ("session.open", "admin", "admin"),
            ("user.rights", "admin", "bobby"),
            ("glue.save", "admin", "demo/script"),
            ("run.kill", "admin", ""),
            ("run.clear", "admin", ""),
        ],
    )
    def test_it_says_who_did_what_when_and_from_where(
        self, site: Site, action: str, who: str, what: str
    ) -> None:
        now_ms = time.time_ns() // 1_000_000

        [entry, *_] = [entry for entry in site.entries if entry.action == action]

        assert (entry.who, entry.origin) == (who, "127.0.0.1")
        assert what in entry.name
        assert now_ms - 600_000 < entry.at <= now_ms + 5_000

    def test_it_says_what_was_before_and_after(self, site: Site) -> None:
        [rights] = [entry for entry in site.entries if entry.action == "user.rights"]

        before, after = json.loads(rights.before or "{}"), json.loads(rights.after or "{}")

        assert before["role"] != after["role"]

    @pytest.mark.parametrize("statement", FORGERIES)
    def test_the_account_that_everything_used_cannot_change_it(
        self, site: Site, statement: str
    ) -> None:
        before = [(entry.id, entry.who) for entry in site.entries]

        with (
            contextlib.closing(Database(site.deployment.env["WARREN_DATABASE_URL"])) as database,
            database.engine.connect() as connection,
            pytest.raises(DBAPIError) as refused,
        ):
            connection.exec_driver_sql(statement)

        error = refused.value.orig
        assert getattr(error, "sqlstate", None) in REFUSALS or error.args[0] in REFUSALS
        assert [(entry.id, entry.who) for entry in site.entries] == before


def artefacts(folder: Path) -> Iterator[tuple[str, str]]:
    """Return every file that the deployment has made, with its text."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            yield str(path.relative_to(folder)), path.read_text(errors="replace")


def test_no_secret_is_in_any_log_file_page_or_entry(site: Site) -> None:
    texts = dict(artefacts(site.deployment.folder))
    logs = [name for name in texts if name.startswith("warren-")]
    assert len(logs) >= 3
    assert any("page_not_served" in texts[name] for name in logs)
    assert any(name.endswith("journal") or "state" in name for name in texts)
    assert any(re.search(r"logs/.*/\d+\.log$", name) for name in texts)
    assert any("PATH=" in text for name, text in texts.items() if name.endswith(".log"))
    assert len(site.web.answers) > 35
    texts |= {f"answer {n}": one.text for n, one in enumerate(site.web.answers)}
    texts |= {
        f"entry {one.id}": f"{one.who} {one.name} {one.origin} {one.before} {one.after}"
        for one in site.entries
    }

    found = [
        (name, secret)
        for name, text in texts.items()
        for secret, value in site.secrets.items()
        # It is told once, by the console that made it, to whoever started that.
        if value in text.replace(site.first_password_line, "", 1)
    ]

    assert found == []
    told = [text.count(site.secrets["first"]) for text in texts.values()]
    assert sum(told) == 1


class TestRealConsole:
    """The shorter list of what `integration/admin_web/serving/test_http_server.py` does to it."""

    def test_slow_requests_and_large_ones_keep_nobody_waiting(self, site: Site) -> None:
        port = int(site.url.rpartition(":")[2])
        slow = []
        for _ in range(220):
            one = socket.create_connection(
                ("127.0.0.1", port), timeout=30, source_address=("127.0.0.2", 0)
            )
            one.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\nX-A: ")
            slow.append(one)
        large = socket.create_connection(("127.0.0.1", port), timeout=30)
        large.sendall(
            b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"
        )
        began = time.monotonic()

        served = PlainBrowser(site.url).get("/login").status
        spent = time.monotonic() - began

        assert (served, spent < 10) == (200, True)
        assert large.recv(100).split()[1] == b"413"
        # That one began with the site, so that nobody has to wait for it here.
        assert site.slow.recv(100).split()[1] == b"408"
        for one in (*slow, large):
            one.close()

    def test_very_many_arguments_and_deep_json_are_refused(self, site: Site) -> None:
        many = "&".join("a" for _ in range(10_000))
        deep = PlainBrowser(site.url)
        deep.get("/login")

        assert PlainBrowser(site.url).get(f"/login?{many}").status == 400
        assert PlainBrowser(site.url).get(f"/login?{many * 2}").status == 431
        assert deep.post("/login", username="[" * 250_000, password="x").status == 422
        assert PlainBrowser(site.url).get("/login").status == 200
