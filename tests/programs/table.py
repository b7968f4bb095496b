"""The table of programs in docs/compatibility.md, from what tests/programs/test_compatibility.py kept."""

import json

from .cases import CASES

PLACEMENTS = ("near", "far")


def kept_result(target, case, placement):
    return target / "compatibility" / f"{case.name.replace('/', ' ')}.{placement}.json"


def results_of(target, case):
    """placement -> what came of it, for those that ran."""
    paths = {placement: kept_result(target, case, placement) for placement in PLACEMENTS}
    return {placement: json.loads(path.read_text()) for placement, path in paths.items() if path.exists()}


def table(target):
    """The table's lines; a program that did not run here is left out."""
    lines = ["| program | version | what is run | near | far | notes |", "|---|---|---|---|---|---|"]
    for case in sorted(CASES, key=lambda case: case.name.lower()):
        found = results_of(target, case)
        if len(found) < len(PLACEMENTS):
            continue
        version = found["near"]["version"]
        lines.append(f"| {case.name} | {version} | {case.how} | {found['near']['result']} | {found['far']['result']} | {case.note} |")
    return "\n".join(lines)
