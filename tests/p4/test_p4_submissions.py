"""`belljar p4 test` over a folder of submissions, for teachers."""

import shutil
import xml.etree.ElementTree as xml

from conftest import EXAMPLES, execute

SCRIPT = """# a station that is known
add stations ethernet.dst:0x020000000001 forward(port:1)
packet 2 020000000001 020000000002 9999
expect 1 020000000001 020000000002 9999 $
"""


def test_submissions(belljar, workdir):
    folder = workdir / "submissions"
    solution = (EXAMPLES / "p4-bridge.p4").read_text()
    programs = {
        ".git/config": "",
        "alice/bridge.p4": solution,
        "alice/notes/old.p4": "nothing",
        "bob/bridge.p4": solution.replace("standard.egress_spec = port", "standard.egress_spec = port + 1"),
        "carol/mine.p4": solution,
        "dave/bridge.p4": solution.replace("action flood()", "action flod()"),
        "erin/one.p4": solution,
        "erin/two.p4": solution,
        "frank/README": "",
        "shared.p4": "",
    }
    for name, text in programs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    script = workdir / "bridge.stf"
    script.write_text(SCRIPT)
    report = workdir / "grades.xml"
    done = execute([belljar, "p4", "test", folder, script, "--junit", report])
    assert done.status == 4, done
    for said in ("alice: 1 of 1\n", "bob: 0 of 1\n", "carol: 1 of 1\n", "dave: 0 of 1\n", "erin: 0 of 1\n", "frank: 0 of 1\n",
                 "2 passed, 1 failed, 3 errors\n", "there is no program: 'bridge.p4' is to be submitted",
                 "which of the 2 programs is tested? One is to be called 'bridge.p4'", "dave/bridge.p4: line "):
        assert said in done.out, (said, done)
    suites = xml.parse(report).getroot()
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("6", "1", "3")
    kinds = {suite.get("name"): [child.tag for case in suite for child in case] for suite in suites}
    assert kinds == {"alice": [], "bob": ["failure"], "carol": [], "dave": ["error"], "erin": ["error"], "frank": ["error"]}
    # Files alone are submissions too.
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "alice.p4").write_text(solution)
    done = execute([belljar, "p4", "test", folder, script])
    assert done.status == 0 and "alice.p4: 1 of 1" in done.out, done
