"""`warren tokens …`: the tokens that programs use for the API."""

import sys
from collections.abc import Sequence

import click

from warren.command_options import as_json, examples, takes_settings
from warren.database_access import now_ms, open_database
from warren.local_client import open_client
from warren.resources.accounts import Token
from warren.resources.operation import Scope
from warren.scheduler.commands.account_commands import DEFAULT_DAYS, MAX_DAYS, TokenSpec
from warren.scheduler.views.account_view import read_tokens
from warren.settings.settings import Settings
from warren.terminal.output import print_struct, print_table, shown_ago, visible

HEADERS = ("name", "owner", "scopes", "apps", "state", "expires", "last used")


def _not_empty(_context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    """Refuse an empty list, which would mean no restriction."""
    if given is not None and not _parts(given):
        raise click.BadParameter("expected at least one name", param=option)
    return given


@click.group()
def tokens() -> None:
    """Create, list and revoke the tokens that programs sign in with."""


@tokens.command(
    epilog=examples(
        "warren tokens add deploy --owner ci --scopes read,trigger",
        "warren tokens add nightly --owner ci --scopes trigger --jobs reports/nightly --days 30",
    )
)
@click.argument("name")
@click.option("--owner", required=True, help="The user whose rights limit it.")
@click.option("--scopes", default="read", show_default=True, help=f"Some of {', '.join(Scope)}.")
@click.option(
    "--apps", "app_list", callback=_not_empty, help="Only these apps, separated by commas."
)
@click.option(
    "--jobs", "job_list", callback=_not_empty, help="Only these jobs, separated by commas."
)
@click.option(
    "--days",
    default=DEFAULT_DAYS,
    show_default=True,
    type=click.IntRange(1, MAX_DAYS),
    help="How many days it is valid.",
)
@takes_settings("database_url")
def add(  # noqa: PLR0917 - click passes its parameters by name
    settings: Settings,
    name: str,
    owner: str,
    scopes: str,
    app_list: str | None,
    job_list: str | None,
    days: int,
) -> None:
    """Create a token and print it, only once."""
    with open_client(settings) as client:
        spec = TokenSpec(
            name=name,
            owner_id=client.ids.user(owner),
            scopes=_scopes(_parts(scopes)),
            app_ids=tuple(client.ids.app(app) for app in _parts(app_list or "")),
            job_ids=tuple(client.ids.job(job) for job in _parts(job_list or "")),
            days=days,
        )
        text = client.commands.tokens.add(spec)
    print(text)
    print("it is shown only once; keep it somewhere safe", file=sys.stderr)


@tokens.command("list", epilog=examples("warren tokens list", "warren tokens list --json"))
@as_json
@takes_settings("database_url")
def list_tokens(settings: Settings, as_json: bool) -> None:
    """List the tokens and what they may do."""
    with open_database(settings) as database:
        now = now_ms(database)
        listed = database.read(lambda session: read_tokens(session, now_ms=now)).values()
    if as_json:
        for token in listed:
            print_struct(token)
        return
    lines = [_line(token, now) for token in listed]
    print_table(HEADERS, lines, nothing="no tokens; create one: warren tokens add")


@tokens.command(epilog=examples("warren tokens revoke deploy"))
@click.argument("name")
@takes_settings("database_url")
def revoke(settings: Settings, name: str) -> None:
    """Revoke a token. It is invalid from the next request on."""
    with open_client(settings) as client:
        changed = client.commands.tokens.revoke(client.ids.token(name))
    print(f"revoked {name}" if changed else f"{name} was already revoked")


def _parts(listed: str) -> list[str]:
    return [part.strip() for part in listed.split(",") if part.strip()]


def _scopes(words: Sequence[str]) -> tuple[Scope, ...]:
    if unknown := [repr(word[:100]) for word in words if word not in [*Scope]]:
        raise click.UsageError(
            f"unknown scope {', '.join(unknown)}; expected some of {', '.join(Scope)}"
        )
    return tuple(map(Scope, words))


def _line(token: Token, now: int) -> tuple[str, ...]:
    return (
        token.name,
        token.owner,
        ", ".join(token.scopes),
        visible(", ".join(token.jobs or token.apps or ("all",))),
        token.state,
        shown_ago(token.expires_at, now),
        f"{shown_ago(token.used_at, now)} from {visible(token.used_from)}" if token.used_at else "",
    )
