"""`warren jobs apply --api`: sends a job file to the API instead of using the database."""

from collections.abc import Iterator
from pathlib import Path

from warren.client import ApiError, Client
from warren.errors import CommandError, JobFileError
from warren.jobfile.apply import print_changes
from warren.jobfile.whole_files import read_whole
from warren.jobfile.yaml_tree import line_at, tree_of
from warren.scheduler.commands.job_changes import ChangeAction
from warren.scheduler.commands.job_files.file_changes import Change
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
        with path.open("rb") as file:
            data = read_whole(file, str(path))
        found = client.apply(data, dry_run=dry_run, prune=prune)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise JobFileError([*_problems(path, data, error)] or [f"{url}: {error}"]) from error
    changes = [
        Change(
            action=ChangeAction(one["action"]),
            what=one["what"],
            name=one["name"],
            details=tuple(one["details"]),
            diff=tuple(one["diff"]),
        )
        for one in found["changes"]
    ]
    same = Change(action=ChangeAction.UNCHANGED, what="job", name="")
    print_changes(
        [*changes, *[same] * found["unchanged"]],
        [(one["job"], one["message"]) for one in found["warnings"]],
        dry_run=dry_run,
        as_json=as_json,
    )


def _problems(path: Path, data: bytes, error: ApiError) -> Iterator[str]:
    """Give each problem that the API names, with the file and the line where it can be found."""
    for one in error.problem.get("errors", ()):
        words, line = str(one.get("detail", "")), one.get("line")
        if line is None and one.get("pointer"):
            line = line_at(tree_of(data), str(one["pointer"]))
        yield words if line is None else f"{path}:{line}: {words}"
