"""Compares the documentation with the code.

All checks return a line for each problem. They take texts as arguments, so that each check can be
shown to fail.
"""

import ast
import pkgutil
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import click

#: Methods of a logger with their levels.
LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "critical": "critical",
}
_LOGGERS = {"log", "_log", "logger", "_logger"}
_EVENT = re.compile(r"[a-z]+(_[a-z]+)+")
#: Past participles that do not end in `ed`.
_HAPPENED = {"came", "did", "died", "forgotten", "hung", "left", "lost", "made", "sent", "withheld"}
_IMPOSSIBLE = {"routable", "unstorable"}

_CODE = re.compile(r"`([^`]+)`")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"`(--[a-z-]+)")
_VARIABLE = re.compile(r"\bWARREN_[A-Z][A-Z_]*\b")


@dataclass(frozen=True, slots=True)
class Event:
    """A call that logs: the event, its level and its place."""

    name: str
    level: str
    where: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: its cells as written."""

    cells: tuple[str, ...]

    @property
    def key(self) -> str:
        """The text between backticks in the first cell, or empty."""
        found = _CODE.match(self.cells[0])
        return found[1] if found else ""


def rows(text: str) -> list[Row]:
    """Return the rows of all tables whose first cell is code."""
    lines = (line for line in _FENCE.sub("", text).splitlines() if line.startswith("|"))
    cells = (tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines)
    return [row for row in map(Row, cells) if row.key]


def differences(what: str, documented: Iterable[str], there: Iterable[str]) -> list[str]:
    """Return what is documented twice, not documented, or documented but gone."""
    said, real = list(documented), set(there)
    twice = {name for name in said if said.count(name) > 1}
    return [
        *(f"{what} {name} is documented twice" for name in sorted(twice)),
        *(f"{what} {name} is not documented" for name in sorted(real - set(said))),
        *(f"{what} {name} is documented and gone" for name in sorted(set(said) - real)),
    ]


def part(text: str, title: str) -> str:
    """Return the text under a second-level heading."""
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no heading {title!r}"
    return found[1]


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of one language."""
    return re.findall(rf"^```{language}$\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def broken_python(text: str, package: str) -> list[str]:
    """Return what is wrong with a page's Python: syntax, and names that a package does not have."""
    problems: list[str] = []
    for code in blocks(text, "python"):
        try:
            nodes = list(ast.walk(ast.parse(code)))
        except SyntaxError as error:
            problems.append(f"{error.msg}: {(error.text or '').strip()}")
            continue
        paths = [
            f"{node.module}:{each.name}"
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module
            for each in node.names
        ] + [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
        for path in paths:
            if re.split("[.:]", path)[0] == package:
                try:
                    pkgutil.resolve_name(path)
                except (ImportError, AttributeError):
                    problems.append(f"there is no {path}")
    return problems


def links(text: str) -> list[str]:
    """Return the files that a page links to."""
    found = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    return [target for target in found if "://" not in target]


def source_paths(text: str, folders: Collection[str]) -> list[str]:
    """Return the files and folders in `folders` that a page mentions, such as `sql/ids.py`."""
    found = re.findall(r"`([\w./-]+)`", text)
    return [path for path in found if "/" in path and path.partition("/")[0] in folders]


def class_paths(text: str, packages: Collection[str]) -> list[str]:
    """Return the classes of some packages that a page mentions with their modules."""
    found = re.findall(r"`(\w+(?:\.\w+)*\.[A-Z]\w*)`", text)
    return [path for path in found if path.partition(".")[0] in packages]


def story_calls(text: str) -> list[str]:
    """Return the functions that a story names under their files, as `pkgutil` resolves them."""
    found, module = [], ""
    for indent, name in re.findall(r"^( {4}| {6})([\w./]+)(?: {2,}.*)?$", text, re.MULTILINE):
        if indent == " " * 4:
            module = "warren." + name.removesuffix(".py").replace("/", ".")
        else:
            found.append(f"{module}:{name}")
    return found


def bare_modules(text: str, packages: Collection[str]) -> list[str]:
    """Return the modules that a text names without the `warren.` with which they are imported."""
    found = re.findall(r"`(\w+)\.(\w+)((?:\.\w+)*)`", text)
    return [
        f"{package}.{part}{rest}"
        for package, part, rest in found
        if package in packages and part not in {"py", "env"}
    ]


def anchored_links(text: str) -> list[tuple[str, str]]:
    """Return the links to headings: the file, empty for the page itself, and the anchor."""
    found = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", _FENCE.sub("", text))
    return [(target, anchor) for target, anchor in found if "://" not in target]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", _FENCE.sub("", text), re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    before = [slugs[:place].count(slug) for place, slug in enumerate(slugs)]
    return {f"{slug}-{n}" if n else slug for slug, n in zip(slugs, before, strict=True)}


def contents(text: str) -> list[str]:
    """Return the pages listed in tables of contents, without `.md`."""
    lines = "\n".join(re.findall(r"^```{toctree}$(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    entries = [line for line in lines.splitlines() if line and not line.startswith(":")]
    return [found[1] if (found := re.search("<(.+)>", line)) else line for line in entries]


# -- settings ---------------------------------------------------------------------------------


def foreign_variables(texts: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Return variables with our prefix that are mentioned but are no settings."""
    return [
        f"{name}: {variable} is no setting"
        for name, text in texts.items()
        for variable in sorted(set(_VARIABLE.findall(text)) - set(known))
    ]


def wrong_defaults(table: Iterable[Row], defaults: Mapping[str, str]) -> list[str]:
    """Return each row whose third cell is not the setting's default."""
    return [
        f"{row.key}: the default is {defaults[row.key]!r}, documented is {row.cells[2]!r}"
        for row in table
        if row.key in defaults and row.cells[2].strip("`") != defaults[row.key]
    ]


# -- commands ---------------------------------------------------------------------------------


def leaves(group: click.Group, prefix: str = "warren") -> dict[str, click.Command]:
    """Return every command that is no group, by what users type."""
    context = click.Context(group)
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        typed = f"{prefix} {name}"
        found |= leaves(command, typed) if isinstance(command, click.Group) else {typed: command}
    return found


def options(command: click.Command) -> set[str]:
    """Return the long names of a command's options."""
    return {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
        if name.startswith("--")
    }


def sections(text: str) -> dict[str, str]:
    """Return the text under each heading that is a command, by that command."""
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)
    named = zip(parts[1::2], parts[2::2], strict=True)
    return {found[1]: body for title, body in named if (found := _CODE.fullmatch(title))}


def option_differences(
    parts: Mapping[str, str], commands: Mapping[str, click.Command]
) -> list[str]:
    """Return the options that a command's section lacks, and those that the command lacks."""
    return [
        line
        for name in sorted(parts.keys() & commands.keys())
        for line in differences(
            f"{name}:", set(_OPTION.findall(_tables(parts[name]))), options(commands[name])
        )
    ]


def without_example(parts: Mapping[str, str]) -> list[str]:
    """Return the commands whose section has no example."""
    return [
        f"{name} has no example"
        for name, text in sorted(parts.items())
        if not any(f" {line} ".startswith(f" {name} ") for line in calls(text))
    ]


def calls(text: str) -> Iterator[str]:
    """Yield each call of `warren` or `make` in the code blocks, as it is typed."""
    for block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            typed = re.sub(r"^(\$ |sudo )|^([A-Z_]+=\S+ )+", "", line.strip())
            typed = re.sub(r"^(\$ )?\.venv/bin/", "", typed)
            if typed.startswith(("warren ", "make ")):
                yield re.split(r"  #|[>|&]", typed)[0].strip()


def broken_calls(text: str, root: click.Group, targets: Collection[str]) -> list[str]:
    """Return each call with an unknown command, flag or target."""
    problems = []
    for call in calls(text):
        program, *words = shlex.split(call)
        if program == "make":
            problems += [f"{call!r}: no target {w}" for w in words if _is_unknown(w, targets)]
        else:
            problems += _broken_words(call, words, root)
    return problems


def targets(makefile: str) -> set[str]:
    """Return the targets that `make help` lists."""
    return set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


# -- events -----------------------------------------------------------------------------------


def events(source: str, where: str) -> Iterator[Event]:
    """Yield every event that a module logs; the name is empty if it is not a constant."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and (level := _level(node.func)):
            first = node.args[0] if node.args else None
            said = first.value if isinstance(first, ast.Constant) else None
            name = said if isinstance(said, str) else ""
            yield Event(name, level, f"{where}:{node.lineno}")


def ill_named(found: Iterable[Event]) -> list[str]:
    """Return each event that is not a constant like noun_past_verb."""
    return [f"{event.where}: {event.name!r}" for event in found if not _tells(event.name)]


def wrong_levels(table: Iterable[Row], found: Iterable[Event]) -> list[str]:
    """Return each row whose second cell does not list the event's levels."""
    levels: dict[str, set[str]] = {}
    for event in found:
        levels.setdefault(event.name, set()).add(event.level)
    return [
        f"{row.key} is logged as {', '.join(sorted(levels[row.key]))}, documented: {row.cells[1]}"
        for row in table
        if row.key in levels and set(re.findall("[a-z]+", row.cells[1])) != levels[row.key]
    ]


def _level(function: ast.expr) -> str:
    if not isinstance(function, ast.Attribute) or function.attr not in LEVELS:
        return ""
    owner = function.value
    name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
    return LEVELS[function.attr] if name in _LOGGERS else ""


def _tells(name: str) -> bool:
    if not _EVENT.fullmatch(name):
        return False
    words = set(name.split("_")[1:])
    return bool(words & (_HAPPENED | _IMPOSSIBLE)) or any(word.endswith("ed") for word in words)


def _tables(text: str) -> str:
    lines = (line for line in text.splitlines() if line.startswith("|"))
    return "\n".join(line.split("|")[1] for line in lines)


def _is_unknown(word: str, known: Collection[str]) -> bool:
    return "=" not in word and word not in known


def _broken_words(call: str, words: list[str], root: click.Group) -> list[str]:
    command: click.Command = root
    context = click.Context(root)
    for position, word in enumerate(words):
        if not isinstance(command, click.Group) or word.startswith("-"):
            return _broken_flags(call, words[position:], command)
        found = command.get_command(context, word)
        if found is None:
            return [f"{call!r}: no command {word}"]
        command = found
    return []


def _broken_flags(call: str, words: list[str], command: click.Command) -> list[str]:
    known = {name for one in command.params for name in one.opts} | {"--help"}
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    return [f"{call!r}: no option {flag}" for flag in flags if flag not in known]
