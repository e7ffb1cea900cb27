"""`warren jobs apply --api`: sends a job file to the API instead of using the database."""

from pathlib import Path

from scheduler.commands.job_file import Change
from warren.client import ApiError, Client
from warren.errors import CommandError, JobFileError
from warren.jobfile.apply import print_changes
from warren.settings.settings import PREFIX, Settings


def apply_by_api(
    settings: Settings, path: Path, url: str, *, dry_run: bool, prune: bool, as_json: bool
) -> None:
    """Apply a job file and print each change; if anything is wrong, nothing is changed.

    Raises:
        WarrenError: there is no token, the file cannot be read, or the API refuses it.

    """
    if settings.api_token is None:
        raise CommandError(f"{PREFIX}API_TOKEN: expected a token of the API, it is not set")
    try:
        client = Client(url, settings.api_token)
        found = client.apply(path.read_bytes(), dry_run=dry_run, prune=prune)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        lines = [str(one.get("detail", "")) for one in error.problem.get("errors", ())]
        raise JobFileError(lines or [f"{url}: {error}"]) from error
    changes = [
        Change(
            action=one["action"],
            what=one["what"],
            name=one["name"],
            details=tuple(one["details"]),
            diff=tuple(one["diff"]),
        )
        for one in found["changes"]
    ]
    same = Change(action="unchanged", what="job", name="")
    print_changes([*changes, *[same] * found["unchanged"]], dry_run=dry_run, as_json=as_json)
