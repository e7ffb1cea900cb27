"""XXL-JOB executors in Java and Go: downloaded and compiled when tests run, never kept."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "interop/compiled"
#: The newest of both major versions in Java, and the newest in Go that can be downloaded.
JAVA_VERSIONS = ("2.4.2", "3.3.2")
BUILD_SECONDS = 300


def java(version: str, folder: Path) -> Sequence[str]:
    """Return the command that runs the Java executor with this version of the library."""
    maven, javac, run = tools("mvn", "javac", "java")
    libraries, classes = folder / "lib", folder / "classes"
    fetch = ("dependency:copy-dependencies", "-DincludeScope=runtime")
    options = (f"-Dxxl.version={version}", f"-DoutputDirectory={libraries}")
    run_tool(
        maven, "-q", "-B", "-f", str(SOURCES / "java/pom.xml"), *fetch, *options, folder=folder
    )
    path = f"{libraries}/*"
    source = str(SOURCES / "java/InteropApp.java")
    run_tool(javac, "-cp", path, "-d", str(classes), source, folder=folder)
    return run, "-Xmx128m", "-cp", f"{classes}:{path}", "InteropApp"


def go(folder: Path) -> Sequence[str]:
    """Return the command that runs the Go executor."""
    (compiler,) = tools("go")
    for source in (SOURCES / "go").iterdir():
        shutil.copy(source, folder)
    run_tool(compiler, "mod", "tidy", folder=folder)
    run_tool(compiler, "build", "-o", "interop", ".", folder=folder)
    return (str(folder / "interop"),)


#: The build function of each client, by its name in the tests.
CLIENTS: dict[str, Callable[[Path], Sequence[str]]] = {
    **{f"java-{one}": lambda folder, one=one: java(one, folder) for one in JAVA_VERSIONS},
    "go": go,
}


def tools(*names: str) -> list[str]:
    """Return the paths of these programs; skip the test if one is missing."""
    paths = {name: shutil.which(name) for name in names}
    if missing := [name for name, path in paths.items() if path is None]:
        pytest.skip(f"not on this machine: {', '.join(missing)}")
    return [str(path) for path in paths.values()]


def run_tool(program: str, *arguments: str, folder: Path) -> None:
    """Run a tool, and show its output if it fails."""
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
