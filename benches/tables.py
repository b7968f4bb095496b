"""Results of report.py as tables in Markdown, in the form of docs/performance.md."""

import itertools


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
        same_unit = [table for table in tables if table[0][1]["unit"] == case["unit"]]
        same_group = (table for table in same_unit if table[0][0].startswith(group))
        same_variants = (table for table in same_unit if list(table[0][1]["variants"]) == list(case["variants"]))
        table = next(itertools.chain(same_group, same_variants), None)
        if table is None:
            tables.append(table := [])
        table.append((name, case))
    return tables


def markdown(result):
    """All tables of a result, the machine first, then cases that are missing with the reason."""
    lines = [f"{result['processor']}, {result['cpus']} processors, Linux {result['kernel']}, load {result['load_before']:.1f} before."]
    for cases in grouped(result["cases"]):
        variants = list(dict.fromkeys(variant for _, case in cases for variant in case["variants"]))
        lines += ["", f"| {cases[0][1]['unit']} | {' | '.join(variants)} |", "|---|" + "---:|" * len(variants)]
        for name, case in cases:
            first = next(iter(case["variants"]))
            row = [cell(case["variants"][v], v == first) if v in case["variants"] else "" for v in variants]
            lines.append(f"| {name} | {' | '.join(row)} |")
    missing = {**result["left_out"], **result["failed"]}
    if missing:
        lines += ["", *(f"- {name}: {reason.splitlines()[0]}" for name, reason in missing.items())]
    return "\n".join(lines) + "\n"
