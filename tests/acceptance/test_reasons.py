"""Why runs ended reaches a reader in the reader's language, from wherever it was known."""
# ruff: noqa: RUF001 - Chinese signs are what is shown

import html
import re
from pathlib import Path

import pytest

from tests.support.console import Clock, Visit, add_user, make_app, signed_in
from tests.support.deployment import Deployment
from warren.sql.accounts.users import Role
from warren.sql.run_status import RunStatus

READER = "reads-chinese"


@pytest.fixture
def reader(fleet: Deployment) -> Visit:
    app = make_app(fleet.database, Clock(), now_ms=fleet.now_ms)
    add_user(fleet.database, READER, Role.ADMINISTRATOR)
    return signed_in(app, READER)


def shown(reader: Visit, run_id: int) -> list[str]:
    """Return the headline of a run's page, and how it was sent."""
    page = reader.get(f"/runs/{run_id}", headers={"Accept-Language": "zh-CN"}).text
    [headline] = re.findall(r'<strong class="headline">(.*?)</strong>', page, re.DOTALL)
    texts = re.findall(r'<pre class="text"[^>]*>(.*?)</pre>', page, re.DOTALL)
    return [html.unescape(text) for text in (headline, *texts)]


def test_why_a_run_ended_is_shown_in_the_readers_language(
    fleet: Deployment, reader: Visit, tmp_path: Path
) -> None:
    never = str(tmp_path / "never")
    fleet.job("too-slow", handler="until-file", param=never, timeout=1)
    fleet.job("alone", handler="until-file", param=never, block="DISCARD_LATER")
    fleet.job("own-words", handler="fail")

    slow, first = fleet.trigger("too-slow"), fleet.trigger("alone")
    fleet.await_start(first)
    second, own = (fleet.trigger(name) for name in ("alone", "own-words"))
    fleet.await_status(slow, RunStatus.TIMED_OUT)
    fleet.await_status(second, RunStatus.REFUSED)
    told = fleet.await_status(own, RunStatus.FAILED).message
    fleet.warren("runs", "kill", str(first))
    fleet.await_status(first, RunStatus.KILLED)

    assert shown(reader, slow)[0].startswith("超过 1 秒的时限")
    assert shown(reader, second)[0] == "该任务的另一个运行正在此处运行或等待"
    assert shown(reader, first)[0] == "按请求终止"
    assert shown(reader, own)[0] == told.splitlines()[0]
    assert shown(reader, slow)[1].startswith("手动触发，第 1 次尝试，还可重试 0 次；调度器 ")
    assert fleet.warren("runs", "show", str(first)).count("killed by request") == 1
