"""`warren import …`: jobs of other schedulers."""

from pathlib import Path
from typing import Any

import click

from warren.command_options import as_json, examples, takes_settings
from warren.importing.celery_beat import print_beat_schedule
from warren.importing.crontab import print_crontab
from warren.importing.xxl_job.command import XxlJobWish, import_xxl_job
from warren.settings.settings import Settings

_path = click.Path(path_type=Path)


@click.group("import")
def import_group() -> None:
    """Import jobs of other schedulers: from XXL-JOB, or as a job file from cron or Celery."""


@import_group.command(
    "xxl-job",
    epilog=examples(
        "warren import xxl-job mysql+pymysql://reader@db/xxl_job --password-file pw \\",
        "  --timezone Asia/Shanghai --dry-run",
    ),
)
@click.argument("place", metavar="URL|DUMP")
@click.option("--timezone", required=True, metavar="ZONE", help="Of XXL-JOB's server; mandatory.")
@click.option("--app", help="Only this app, by its name here; no users and no day report.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--print", "as_file", is_flag=True, help="Print a job file and write nothing else.")
@click.option("--take-over", is_flag=True, help="Start here what ran there; stop XXL-JOB before.")
@click.option(
    "--runs",
    type=click.IntRange(0, 3_650),
    default=0,
    metavar="DAYS",
    help="Finished runs of the last DAYS too.",
)
@click.option("--overwrite", is_flag=True, help="Let XXL-JOB's side win where both changed.")
@click.option("--source", default="xxl-job", show_default=True, help="Tells XXL-JOBs apart.")
@click.option("--password-file", type=_path, help="Holds the password for URL; else it is asked.")
@click.option("--passwords", type=_path, help="New file for passwords of users; else disabled.")
@as_json
@takes_settings("database_url")
def xxl_job(settings: Settings, **options: Any) -> None:
    """Import apps, jobs, users and the day report from XXL-JOB, 2.2 to 3.x.

    From its database, or from a file of mysqldump; it is only read. Jobs are stopped here. A second
    import brings in what has changed there, and keeps what was changed here too.
    """
    import_xxl_job(settings, XxlJobWish(**options))


@import_group.command(
    "crontab",
    epilog=examples(
        "crontab -l | warren import crontab - --app nightly > jobs.yaml",
        "warren jobs apply jobs.yaml --dry-run",
    ),
)
@click.argument("path", metavar="FILE", type=_path)
@click.option("--app", required=True, help="The app of the jobs; mandatory.")
@click.option("--timezone", default="", metavar="ZONE", help="Of the machine that ran it.")
def crontab(path: Path, app: str, timezone: str) -> None:
    """Print a crontab as a job file: a shell script for each line. FILE - is standard input.

    A line that cannot be a job is named on standard error.
    """
    print_crontab(path, app=app, timezone=timezone)


@import_group.command(
    "celery",
    epilog=examples("warren import celery proj:app --app mails > jobs.yaml"),
)
@click.argument("place", metavar="MODULE:NAME")
@click.option("--app", required=True, help="The app of the jobs; mandatory.")
def celery(place: str, app: str) -> None:
    """Print the beat_schedule of a Celery app as a job file; the app is imported.

    Its tasks become handlers by warren.contrib.celery. What has no equal here is named on standard
    error.
    """
    print_beat_schedule(place, app=app)
