"""`warren import …`: imports jobs of other schedulers."""

from pathlib import Path
from typing import Any

import click

from warren.command_options import Duration, as_json, examples, takes_settings
from warren.importing.celery_beat import print_beat_schedule, print_periodic_tasks
from warren.importing.crontab import print_crontab
from warren.importing.xxl_job.command import XxlJobImportOptions, import_xxl_job
from warren.importing.xxl_job.cut_over import QUIET_SECONDS
from warren.settings.settings import Settings

_path = click.Path(path_type=Path)


@click.group("import")
def import_group() -> None:
    """Import jobs from XXL-JOB, or print those of cron or Celery as a job file."""


@import_group.command(
    "xxl-job",
    epilog=examples(
        "warren import xxl-job 'mysql+pymysql://reader@db/xxl_job?ssl_ca=ca.pem' \\",
        "  --password-file pw --timezone Asia/Shanghai --dry-run",
    ),
)
@click.argument("place", metavar="URL|DUMP")
@click.option("--timezone", required=True, metavar="ZONE", help="Time zone of XXL-JOB's server.")
@click.option("--app", help="Only this app, by its name here; no users, no day report.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it.")
@click.option("--print", "as_file", is_flag=True, help="Print a job file instead of importing.")
@click.option(
    "--take-over", is_flag=True, help="Start the jobs that ran there; stop XXL-JOB first."
)
@click.option(
    "--again", is_flag=True, help="With --take-over: also start jobs that were started here before."
)
@click.option(
    "--give-back",
    is_flag=True,
    help="Only stop here the jobs that came from there, so that XXL-JOB can run them again.",
)
@click.option(
    "--watch",
    type=Duration(QUIET_SECONDS, 3_600),
    metavar="DURATION",
    help="With --take-over: how long XXL-JOB's database must stay unchanged first. Default: 6.",
)
@click.option(
    "--wait",
    type=Duration(),
    default="0",
    metavar="DURATION",
    help="With --take-over: wait so long, such as 10m, until nothing runs there.",
)
@click.option(
    "--datetime-timezone",
    metavar="ZONE",
    help="Time zone of its DATETIME columns, if it differs and is not detected.",
)
@click.option(
    "--runs",
    type=click.IntRange(0, 3_650),
    default=0,
    metavar="DAYS",
    help="Also import finished runs of the last DAYS.",
)
@click.option(
    "--keep-handlers",
    is_flag=True,
    help="Leave httpJobHandler and commandJobHandler to executors of XXL-JOB.",
)
@click.option("--overwrite", is_flag=True, help="Let XXL-JOB win where both sides changed.")
@click.option(
    "--source",
    default="xxl-job",
    show_default=True,
    help="A name for this XXL-JOB, if you have several.",
)
@click.option(
    "--password-file",
    type=_path,
    help="File with the password for URL; otherwise you are asked for it.",
)
@click.option(
    "--passwords", type=_path, help="New file for users' passwords; otherwise users are disabled."
)
@as_json
@takes_settings("database_url")
def xxl_job(settings: Settings, **options: Any) -> None:
    """Import apps, jobs, users and the day report from XXL-JOB 2.2 to 3.x.

    URL is its database, which is only read; DUMP is a file written by mysqldump. Imported jobs
    are stopped. Importing again brings in what has changed there and keeps what was changed here.
    """
    import_xxl_job(settings, XxlJobImportOptions(**options))


@import_group.command(
    "crontab",
    epilog=examples(
        "crontab -l | warren import crontab - --app nightly > jobs.yaml",
        "warren jobs apply jobs.yaml --dry-run",
    ),
)
@click.argument("path", metavar="FILE", type=_path)
@click.option("--app", required=True, help="The jobs' app.")
@click.option(
    "--timezone", default="", metavar="ZONE", help="Time zone of the machine that ran it."
)
@click.option(
    "--system", "is_system", is_flag=True, help="Its lines have a user, as in /etc/crontab."
)
def crontab(path: Path, app: str, timezone: str, is_system: bool) -> None:
    """Print a crontab as a job file, with a shell script for each line. FILE - is standard input.

    The jobs arrive stopped, and their app stays as it is. Lines that cannot become jobs are listed
    on standard error.
    """
    print_crontab(path, app=app, timezone=timezone, is_system=is_system)


@import_group.command(
    "celery",
    epilog=examples("warren import celery proj:app --app mails > jobs.yaml"),
)
@click.argument("place", metavar="MODULE:NAME")
@click.option("--app", required=True, help="The jobs' app.")
def celery(place: str, app: str) -> None:
    """Print the beat_schedule of a Celery app as a job file. This imports the app.

    The jobs arrive stopped, and their app stays as it is. warren.contrib.celery turns the tasks
    into handlers. What has no equivalent here is listed on standard error.
    """
    print_beat_schedule(place, app=app)


@import_group.command(
    "django-celery-beat",
    epilog=examples(
        "manage.py dumpdata django_celery_beat > beat.json",
        "warren import django-celery-beat beat.json --app mails > jobs.yaml",
    ),
)
@click.argument("place", metavar="URL|DUMP")
@click.option("--app", required=True, help="The jobs' app.")
@click.option(
    "--password-file",
    type=_path,
    help="File with the password for URL; otherwise you are asked for it.",
)
@takes_settings()
def django_celery_beat(
    settings: Settings, place: str, app: str, password_file: Path | None
) -> None:
    """Print the periodic tasks in a Django database as a job file.

    URL is a database of MySQL, MariaDB or SQLite, which is only read; DUMP is what manage.py
    dumpdata django_celery_beat prints, and - is standard input. The jobs arrive stopped, and their
    app stays as it is. What has no equivalent here is listed on standard error.
    """
    print_periodic_tasks(settings, place, app=app, password_file=password_file)
