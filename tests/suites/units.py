"""The units that suites consist of, and running one of them in one place."""

from . import cpython, golang, nodejs
from .results import Results

FAMILIES = {"cpython": cpython, "go": golang, "node": nodejs}
UNITS = [f"cpython/{module}" for module in cpython.MODULES] + [f"go/{package}" for package in golang.PACKAGES]
UNITS += [f"node/{group}" for group in nodejs.GROUPS]


def missing(unit):
    return FAMILIES[unit.partition("/")[0]].missing()


def run_unit(unit, where, folder, belljar):
    """Its results, which are kept in `folder` as well."""
    family, _, name = unit.partition("/")
    work = folder / "work" / where / unit.replace("/", "-")
    if family == "cpython":
        results = cpython.run_module(name, where, work, belljar)
    elif family == "node":
        results = nodejs.run_group(name, where, work, belljar, folder)
    else:
        results = golang.run_package(name, where, work, belljar, folder / "programs")
    kept(unit, where, folder).parent.mkdir(parents=True, exist_ok=True)
    results.save(kept(unit, where, folder))
    return results


def kept(unit, where, folder):
    return folder / "results" / f"{unit.replace('/', '-')}.{where}.json"


def load(unit, where, folder):
    """What `run_unit` last kept; `None` if it never ran."""
    path = kept(unit, where, folder)
    return Results.load(path) if path.exists() else None
