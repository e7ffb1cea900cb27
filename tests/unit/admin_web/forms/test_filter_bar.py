"""The bar of filters above a list: what is chosen, and how it goes again without a script."""

import re

import pytest

from tests.support.console import Clock, Visit
from tests.support.stored_rows import Rows


def chips(page: str) -> dict[str, str]:
    """Return what each chip says, and where it leads."""
    found = re.search(r'<p class="chips".*?</p>', page, re.DOTALL)
    links = re.findall(r'<a href="([^"]+)"[^>]*>(.*?)</a>', found[0], re.DOTALL) if found else []
    return {
        " ".join(re.sub("<[^>]+>", " ", words).split()): url.replace("&amp;", "&")
        for url, words in links
    }


def test_each_chosen_filter_is_a_chip_that_removes_it(admin: Visit, rows: Rows) -> None:
    rows.job("nightly")

    page = admin.get("/jobs?name=night&state=stopped&order=newest&after=3").text

    assert chips(page) == {
        "Name night Remove this filter": "/jobs?state=stopped&order=newest",
        "State stopped Remove this filter": "/jobs?name=night&order=newest",
        "Sort by newest first Remove this filter": "/jobs?name=night&state=stopped",
        "Clear filters": "/jobs",
    }
    assert chips(admin.get("/jobs?order=name").text) == {}


@pytest.mark.parametrize("since", ["2027-01-15", "2027-01-15 00:00", "2027-01-15T00:00"])
def test_times_are_written_as_iso_8601_has_them(
    admin: Visit, rows: Rows, clock: Clock, since: str
) -> None:
    job_id = rows.job("nightly")
    before, after = (rows.run(job_id, clock.now + n * 43_200_000) for n in (-1, 0))

    page = admin.get("/runs", query_string={"since": since}).text

    assert 'name="since" placeholder="2026-01-31 08:00"' in page
    assert [*chips(page)] == ["Due from 2027-01-15 00:00 Remove this filter"]
    assert f'href="/runs/{after}"' in page
    assert f'href="/runs/{before}"' not in page


def test_a_filter_that_is_wrong_opens_the_box_that_has_it(admin: Visit) -> None:
    page = admin.get("/runs?since=soon")

    assert page.status_code == 422
    assert "filter-more" in page.text
    assert re.search(r'<details class="confirm filter-more" open>', page.text)
    assert "Enter a time like 2026-01-31 08:00." in page.text


def test_every_list_has_the_same_bar_with_a_chip_for_each_filter(admin: Visit, rows: Rows) -> None:
    rows.app("reports")
    wanted = {
        "/alarms?job=night&state=held&app=reports": 3,
        "/audit?name=night&kind=job&since=2026-01-31": 3,
        "/executors?address=a&state=alive&order=cpu": 3,
        "/jobs?name=night&state=stopped": 2,
        "/ledger?name=night&range=7": 2,
        "/queue?app=reports": 1,
        "/runs?kind=CRON&status=FAILED": 2,
        "/timeline?app=reports&zoom=1&rows=app": 3,
        "/users?name=ann&role=viewer": 2,
    }

    pages = {path: admin.get(path).text for path in wanted}

    found = {
        path: len([words for words in chips(page) if words != "Clear filters"])
        for path, page in pages.items()
        if 'class="filters filter-bar"' in page
    }
    assert found == wanted
