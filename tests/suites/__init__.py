"""Programs' own test suites as judges of the kernel: each runs natively, near and far, test by test, side by side.

`python3 tests/suites [UNIT...]` runs units by hand; tests/programs/test_suites.py is the same behind `./test --all`. What a
suite passes natively and not under Belljar needs a reason in explanations.yaml; docs/compatibility.md is made of both.
"""
