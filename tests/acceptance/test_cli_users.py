"""`warren users` and `warren alarms`, as people call them."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.support.command import WARREN, run_warren
from tests.support.eventually import eventually
from tests.support.mailbox import Mailbox
from warren.sql.alarms import alarms
from warren.sql.engine import Database

PASSWORD = "correct horse"


class Folder:
    """A folder with a database, and `warren` called in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.env = {"WARREN_DATABASE_URL": f"sqlite:///{path}/warren.db"}
        (path / "jobs.yaml").write_text("apps: [{name: reports}, {name: mails}]\n")
        assert self("db", "upgrade").returncode == 0
        assert self("jobs", "apply", "jobs.yaml").returncode == 0

    def __call__(self, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
        return run_warren(*words, folder=self.path, env=self.env, said=said)

    def users(self) -> list[dict[str, object]]:
        listed = self("users", "list", "--json").stdout
        return [json.loads(line) for line in listed.splitlines()]

    def at_a_terminal(self, *words: str, typed: list[str]) -> tuple[int, str]:
        """Return the status and all that the screen showed."""
        pid, screen = pty.fork()
        if pid == 0:
            os.chdir(self.path)
            os.execve(WARREN, [str(WARREN), *words], {"PATH": os.environ["PATH"], **self.env})
        seen = b""
        for number, line in enumerate(typed, 1):
            seen += eventually(lambda: os.read(screen, 1000))
            while seen.count(b": ") < number:
                seen += os.read(screen, 1000)
            os.write(screen, f"{line}\n".encode())
        try:
            while more := os.read(screen, 1000):
                seen += more
        except OSError:  # how a terminal says that nobody is there any more
            pass
        os.close(screen)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("users"))


def test_password_is_one_line_of_standard_input(folder: Folder) -> None:
    done = folder(
        "users", "add", "root-user", "--role", "administrator", said=f"{PASSWORD}\nmore\n"
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "added administrator root-user\n"
    assert folder.users()[-1] == {
        "name": "root-user",
        "role": "administrator",
        "apps": [],
        "may_edit_scripts": True,
        "disabled": False,
        "identity": "",
    }


def test_password_is_asked_for_twice_and_never_shown(folder: Folder) -> None:
    words = ("users", "add", "alice", "--role", "operator", "--apps", "reports,mails", "--glue")

    status, screen = folder.at_a_terminal(*words, typed=[PASSWORD, PASSWORD])

    assert status == 0, screen
    assert "Password: " in screen
    assert "Again: " in screen
    assert PASSWORD not in screen
    assert folder.users()[0]["apps"] == ["reports", "mails"]


def test_two_passwords_that_differ_change_nothing(folder: Folder) -> None:
    words = ("users", "add", "bobby", "--role", "viewer", "--apps", "mails")

    status, screen = folder.at_a_terminal(*words, typed=[PASSWORD, "battery staple"])

    assert status == 1
    assert screen.splitlines()[-1] == "error: the two passwords differ"
    assert "bobby" not in [user["name"] for user in folder.users()]


def test_password_can_be_changed(folder: Folder) -> None:
    folder("users", "add", "carol", "--role", "administrator", said=PASSWORD)

    done = folder("users", "passwd", "carol", said="battery staple\n")

    assert (done.returncode, done.stdout) == (0, "changed the password of carol\n")


def test_user_is_disabled_and_enabled_again(folder: Folder) -> None:
    folder("users", "add", "erika", "--role", "viewer", "--apps", "mails", said=PASSWORD)

    done = [folder("users", "disable", "erika")]
    table = folder("users", "list").stdout
    states = {user["name"]: user["disabled"] for user in folder.users()}
    done.append(folder("users", "enable", "erika"))

    assert [one.stdout for one in done] == ["disabled erika\n", "enabled erika\n"]
    assert [one.returncode for one in done] == [0, 0]
    assert "disabled" in next(line for line in table.splitlines() if line.startswith("erika"))
    assert states.pop("erika") is True
    assert not any(states.values())


def test_the_last_administrator_is_not_disabled(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder("users", "add", "root-user", "--role", "administrator", said=PASSWORD)

    done = folder("users", "disable", "root-user")

    assert done.returncode == 1
    assert done.stderr == "error: root-user is the only administrator who can sign in\n"


@pytest.mark.parametrize(
    ("words", "said", "complaint"),
    [
        ("add me --role viewer --apps mails", PASSWORD, "expected the user's name to be like"),
        ("add dave --role viewer --apps mails", "", "expected a password on standard input"),
        ("add dave --role viewer --apps mails", "hush", "8 to 200 characters, it has 4"),
        ("add dave --role viewer --apps mails", "Password1", "not to be a common one"),
        ("add dave --role viewer", PASSWORD, "expected the apps of a new viewer, got none"),
        ("add dave --role viewer --apps shop", PASSWORD, "no app named 'shop'"),
        ("add dave --role administrator --apps mails", PASSWORD, "an administrator has all apps"),
        ("passwd nobody", PASSWORD, "no user named 'nobody'"),
        ("disable nobody", "", "no user named 'nobody'"),
        ("enable nobody", "", "no user named 'nobody'"),
    ],
)
def test_what_is_wrong_is_one_line(folder: Folder, words: str, said: str, complaint: str) -> None:
    done = folder("users", *words.split(), said=said)

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert complaint in line
    assert "hush" not in line


def test_alarms_that_wait_are_shown_without_what_lets_others_post_there(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    database = Database(folder.env["WARREN_DATABASE_URL"])
    facts = {"subject_key": "absent:1:1", "content": "{}", "created_at": 1, "app_id": 1}
    kept = [
        alarms.NewAlarm(channel="slack", target="https://hooks.slack.com/services/hush", **facts),
        alarms.NewAlarm(channel="mail", target="ops@example.com", **facts),
    ]
    database.write(lambda session: alarms.add(session, kept))
    database.close()

    table = folder("alarms", "list").stdout
    listed = [json.loads(line) for line in folder("alarms", "list", "--json").stdout.splitlines()]

    assert "hush" not in table
    assert "reports" in table
    assert {(one["app"], one["target"], one["status"]) for one in listed} == {
        ("reports", "https://hooks.slack.com/…", "NEW"),
        ("reports", "ops@example.com", "NEW"),
    }


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
@pytest.mark.parametrize("refused", [False, True])
def test_check_tries_the_mail_server(tmp_path: Path, refused: bool) -> None:
    folder = Folder(tmp_path)

    with Mailbox(login=("me", "hush")) as box:
        folder.env["WARREN_SMTP_URL"] = box.url.replace("hush", "wrong") if refused else box.url
        done = folder("check", "--for", "scheduler")

    assert ("ok     mail server: 127.0.0.1 answers" in done.stdout) is not refused
    assert ("error: mail server: 535" in done.stderr) is refused
    assert "hush" not in done.stdout + done.stderr


def test_no_alarm_waits(folder: Folder) -> None:
    done = folder("alarms", "list")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no unsent alarms\n")
