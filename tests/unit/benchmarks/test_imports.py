"""Every benchmark can be imported: what it measures is where it looks for it."""

import importlib
import pkgutil

import benchmarks

#: Programs of other schedulers, whose libraries are not installed here, and programs of executors.
FOREIGN = (
    "benchmarks.peers.programs",
    "benchmarks.handlers",
    "benchmarks.gateway.remotes",
    "benchmarks.gateway.busy_remotes",
)


def test_each_module_finds_what_it_measures() -> None:
    names = [
        module.name
        for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
        if not module.name.startswith(FOREIGN) and not module.name.endswith("__main__")
    ]

    for name in names:
        importlib.import_module(name)

    assert len(names) > 20
