"""Reads files as a whole that are no larger than a job file may be."""

from typing import BinaryIO

from warren.errors import CommandError
from warren.scheduler.commands.job_files.job_file import JOB_FILE_BYTES


def read_whole(file: BinaryIO, name: str) -> bytes:
    """Return the content of a file.

    Raises:
        CommandError: it is larger than a job file may be.

    """
    data = file.read(JOB_FILE_BYTES + 1)
    if len(data) > JOB_FILE_BYTES:
        raise CommandError(
            f"{name}: expected a file of up to {JOB_FILE_BYTES} bytes, got a larger one"
        )
    return data
