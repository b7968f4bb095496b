"""A guest: CPython's regression tests (`python3 -m test -v MODULE`), recorded test by test.

record_cpython.py EVENTS LEFT_OUT MODULE: appends a line of JSON to EVENTS when a test starts and when it ends, so that
whoever reads it knows what ran last; the tests that the file LEFT_OUT names, one to a line, are not run.
"""

import json
import runpy
import sys
import unittest

from test.support import testresult


def recorded(events):
    """The class of results that the regression tests use, writing to `events` as well."""

    def note(test, outcome, detail=""):
        name = test if isinstance(test, str) else test.id()
        # Opened anew each time: tests look at which descriptors are open.
        with open(events, "a") as out:
            out.write(json.dumps({"test": name, "outcome": outcome, "detail": detail}) + "\n")

    class Recorded(testresult.RegressionTestResult):
        def startTest(self, test):
            note(test, "started")
            super().startTest(test)

        def addSuccess(self, test):
            note(test, "passed")
            super().addSuccess(test)

        def addExpectedFailure(self, test, err):
            note(test, "passed")
            super().addExpectedFailure(test, err)

        def addSkip(self, test, reason):
            note(test, "skipped", str(reason))
            super().addSkip(test, reason)

        def addError(self, test, err):
            note(test, "failed", self._exc_info_to_string(err, test))
            super().addError(test, err)

        def addFailure(self, test, err):
            note(test, "failed", self._exc_info_to_string(err, test))
            super().addFailure(test, err)

        def addUnexpectedSuccess(self, test):
            note(test, "failed", "unexpected success")
            super().addUnexpectedSuccess(test)

        def addSubTest(self, test, subtest, err):
            if err is not None:
                note(test, "failed", f"{subtest}\n{self._exc_info_to_string(err, test)}")
            super().addSubTest(test, subtest, err)

    return Recorded


def leave_out(names):
    run = unittest.TestCase.run
    unittest.TestCase.run = lambda self, result=None: None if self.id() in names else run(self, result)


def main():
    events, left_out, module = sys.argv[1:]
    testresult.RegressionTestResult = recorded(events)
    with open(left_out) as names:
        leave_out(set(names.read().split()))
    # As `python3 -m test` from here on: processes that tests spawn import what their parent's main module is.
    del sys.path[0]
    # What this one asks for as a "network" is the loopback interface.
    resources = ["-u", "network"] if module == "test_socketserver" else []
    sys.argv = ["test", "-v", *resources, module]
    runpy.run_module("test", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
