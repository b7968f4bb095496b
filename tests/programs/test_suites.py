"""Test suites that others wrote for Linux: what passes natively passes near and far, or the reason is known."""

import os

import pytest
from conftest import ROOT, TARGET
from suites import nodejs, report, units
from suites.places import WHERE

FOLDER = TARGET / "suites"


@pytest.mark.slow
@pytest.mark.parametrize("unit", units.UNITS)
def test_unit(unit, belljar):
    reason = units.missing(unit)
    if reason:
        pytest.skip(reason)
    try:
        for where in WHERE:
            units.run_unit(unit, where, FOLDER, belljar)
    except nodejs.Missing as reason:
        pytest.skip(str(reason))
    unexplained = [f"{test}: {outcome} {where}" for where, test, outcome, reason in report.differences(FOLDER, unit) if not reason]
    assert not unexplained, "pass natively, and no entry of tests/suites/explanations.yaml says why not here:\n" + "\n".join(unexplained)


@pytest.mark.slow
def test_document():
    """The published numbers can be made from what just ran."""
    text = report.document(TARGET)
    if text is None:
        pytest.skip("not every suite could run")
    if os.environ.get("BELLJAR_UPDATE_DOCS"):
        (ROOT / "docs/compatibility.md").write_text(text)
    (FOLDER / "compatibility.md").write_text(text)
