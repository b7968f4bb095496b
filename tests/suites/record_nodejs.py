"""A guest: runs node's tests of a group one by one, as its tools/test.py does, and records what comes of each.

record_nodejs.py WORK GROUP: node is WORK/node, the tests are in WORK/test; lines of JSON are appended to WORK/events.
Tests that WORK/done names are not run.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

SECONDS = 120


def main():
    work, group = pathlib.Path(sys.argv[1]), sys.argv[2]
    done = set((work / "done").read_text().split())
    environment = os.environ | {"NODE_TEST_DIR": str(work), "NODE_SKIP_FLAG_CHECK": "1"}

    def note(test, outcome, detail=""):
        with open(work / "events", "a") as out:
            out.write(json.dumps({"test": test, "outcome": outcome, "detail": detail[-3000:]}) + "\n")

    for file in sorted((work / "test/parallel").glob(f"test-{group}-*.js")):
        if file.stem in done:
            continue
        flags = re.search(r"^// Flags: (.*)$", file.read_text(errors="replace"), re.M)
        command = [work / "node", *(flags[1].split() if flags else ()), file]
        note(file.stem, "started")
        try:
            ended = subprocess.run(command, cwd=work / "test", env=environment, stdin=subprocess.DEVNULL, timeout=SECONDS,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        except subprocess.TimeoutExpired as late:
            note(file.stem, "hung", (late.stdout or b"").decode(errors="replace"))
            continue
        said = ended.stdout.decode(errors="replace")
        if ended.returncode != 0:
            note(file.stem, "failed", f"exit status {ended.returncode}\n{said}")
        elif re.search(r"^1\.\.0 # Skipped", said, re.M):
            note(file.stem, "skipped", said)
        else:
            note(file.stem, "passed")


if __name__ == "__main__":
    main()
