"""Declares one more field of a job, in the memory of each Python with this folder on its path.

These are the lines that a developer adds for a field, apart from its line in docs/jobs.md: what it
is, its column, its type in `@job(…)`, and its migration. Everything else follows.
"""

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

#: The lines by the end of their file's path, each with the line that it follows.
LINES = {
    "scheduler/jobs/spec.py": (
        '    process: Annotated[str, Choice(PROCESSES)] = ""\n',
        '    flavour: Annotated[str, Choice(("MILD", "SPICY"))] = "MILD"\n',
    ),
    "sql/models/job_tables.py": (
        '    process: Mapped[str] = mapped_column(String(16), default="")\n',
        '    flavour: Mapped[str] = mapped_column(String(16), default="MILD")\n',
    ),
    "executor/handlers/declarations.py": (
        "    timeout: int | str\n",
        "    flavour: str\n",
    ),
    "sql/migrations/versions/v0002_after_0_1_0.py": (
        '    add_column("warren_calendar", sa.Column("not_taken", sa.String(length=1_000)))\n',
        '    add_column("xxl_job_info", sa.Column("flavour", sa.String(length=16)))\n',
    ),
}

_as_written = SourceFileLoader.get_code


def _with_the_field(loader: SourceFileLoader, name: str) -> CodeType | None:
    path = loader.get_filename(name)
    for end, (before, added) in LINES.items():
        if path.endswith(end):
            text = Path(path).read_text()
            assert text.count(before) == 1, f"{end} lacks the line {before!r}"
            return compile(text.replace(before, before + added), path, "exec", dont_inherit=True)
    return _as_written(loader, name)


SourceFileLoader.get_code = _with_the_field  # type: ignore[method-assign] # for imports from now on
