"""Routes that other distributions add by an entry point."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from random import Random
from textwrap import dedent

import pytest
import structlog

from warren.errors import JobFileError
from warren.jobfile.reader import read_job_file
from warren.route_plugins import GROUP, load_routes, route_names
from warren.scheduler.routing.routes import Choice, Router, RouteRequest, choose, with_added

EXAMPLE = Path(__file__).parents[3] / "examples" / "sticky_route"
JOBS = "apps: [{name: demo}]\njobs: [{name: x, app: demo, handler: y, route: STICKY}]\n"

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a distribution with these entry points where Python finds it."""

    def install(name: str, module: str = "", **points: str) -> None:
        folder = tmp_path / name
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{point} = {leads_to}" for point, leads_to in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]))
        if module:
            (folder / f"{name}.py").write_text(dedent(module))
        monkeypatch.syspath_prepend(str(folder))

    return install


@pytest.fixture
def example(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the example as its pyproject.toml says."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    monkeypatch.syspath_prepend(str(EXAMPLE))
    install("sticky_example", **project["entry-points"][GROUP])


def test_without_distributions_there_is_none() -> None:
    assert route_names() == ()
    assert load_routes() == {}


@pytest.mark.usefixtures("example")
def test_the_example_stays_with_an_executor_until_that_one_has_gone() -> None:
    routers = with_added(load_routes())

    def next_choice(memory: object, *addresses: str) -> Choice:
        request = RouteRequest(job_id=1, addresses=addresses, memory=memory)  # type: ignore[arg-type]
        return choose("STICKY", request, Random(7), routers)

    first = next_choice(None, "a", "b", "c")
    same = next_choice(first.memory, "a", "b", "c")
    other = next_choice(first.memory, *({"a", "b", "c"} - {first.address}))

    assert same.address == first.address
    assert same.words == f"STICKY: {first.address}, as before"
    assert other.address not in (first.address, None)
    assert routers["STICKY"].needs_memory


@pytest.mark.usefixtures("example")
def test_a_job_file_may_name_a_route_that_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(JOBS)

    assert route_names() == ("STICKY",)
    assert read_job_file(file, now_ms=0, added_routes=route_names()).specs[0].route == "STICKY"
    with pytest.raises(JobFileError, match="unknown route 'STICKY'"):
        read_job_file(file, now_ms=0)


def test_a_plain_function_is_a_route_without_a_memory(install: Install) -> None:
    module = """
        from warren.scheduler.routing.routes import Choice
        def pick(request, random):
            return Choice(request.candidates[-1], "the last")
    """
    install("plain_route", module, MINE="plain_route:pick")

    router = load_routes()["MINE"]

    assert isinstance(router, Router)
    assert not router.needs_memory
    request = RouteRequest(job_id=1, addresses=("a", "b"))
    assert router.pick(request, Random(1)) == Choice("b", "the last")


@pytest.mark.parametrize(
    ("point", "leads_to", "words"),
    [
        ("FIRST", "bad_route:pick", "FIRST is XXL-JOB's own"),
        ("mine", "bad_route:pick", "expected the name of a route to be"),
        ("M" * 51, "bad_route:pick", "expected the name of a route to be"),
        ("MINE", "bad_route:number", "expected a function or a Router, got: 5"),
        ("MINE", "bad_route:nothing", "AttributeError"),
        ("MINE", "no_such_module:pick", "ModuleNotFoundError"),
    ],
)
def test_a_route_that_cannot_be_had_is_logged_and_left_out(
    install: Install, point: str, leads_to: str, words: str
) -> None:
    install("bad_route", "number = 5\ndef pick(request, random): ...", **{point: leads_to})
    install("good_route", "def pick(request, random): ...", GOOD="good_route:pick")

    with structlog.testing.capture_logs() as events:
        routes = load_routes()

    assert list(routes) == ["GOOD"]
    [event] = events
    assert (event["event"], event["route"]) == ("route_not_loaded", point)
    assert words in event["error"]


def test_of_two_routes_of_one_name_one_counts(install: Install) -> None:
    for name in ("one_route", "other_route"):
        install(name, "def pick(request, random): ...", MINE=f"{name}:pick")

    with structlog.testing.capture_logs() as events:
        assert list(load_routes()) == ["MINE"]

    assert "another distribution has a route of that name" in events[0]["error"]
    assert route_names() == ("MINE",)
