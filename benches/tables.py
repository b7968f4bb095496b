"""Results of report.py as tables in Markdown, in the form of docs/performance.md."""

import itertools

from common import table


def number(value):
    """Three significant digits, thousands separated."""
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{float(f'{value:.3g}'):g}"


def cell(measured, first):
    """The median; of every variant but the first also its ratio to the first, turn by turn."""
    ratio = measured.get("ratio")
    return number(measured["median"]) + (f" ({number(ratio['median'])})" if ratio and not first else "")


def grouped(cases):
    """Lists of cases, as pairs of name and result, that share a table: equal units, and equal groups (the part of a name before
    its colon) or, failing that, equal variants."""
    tables = []
    for name, case in cases.items():
        group = name.partition(":")[0] + ":"
        same_unit = [other for other in tables if other[0][1]["unit"] == case["unit"]]
        same_group = (other for other in same_unit if other[0][0].startswith(group))
        same_variants = (other for other in same_unit if list(other[0][1]["variants"]) == list(case["variants"]))
        cases_of = next(itertools.chain(same_group, same_variants), None)
        if cases_of is None:
            tables.append(cases_of := [])
        cases_of.append((name, case))
    return tables


def markdown(result):
    """All tables of a result, the machine first, then cases that are missing with the reason."""
    lines = [f"{result['processor']}, {result['cpus']} processors, Linux {result['kernel']}, load {result['load_before']:.1f} before."]
    for cases in grouped(result["cases"]):
        variants = list(dict.fromkeys(variant for _, case in cases for variant in case["variants"]))
        rows = []
        for name, case in cases:
            first = next(iter(case["variants"]))
            rows.append([name, *(cell(case["variants"][v], v == first) if v in case["variants"] else "" for v in variants)])
        lines += ["", table([cases[0][1]["unit"], *variants], rows, numbers=True)]
    missing = {**result["left_out"], **result["failed"]}
    if missing:
        lines += ["", *(f"- {name}: {reason.splitlines()[0]}" for name, reason in missing.items())]
    return "\n".join(lines) + "\n"
