"""The results of one experiment, computed in several modes: the same bytes in every file."""

import shutil

from conftest import contents_of, execute

#: Files that name the placement.
PLACED = ("processed-config.yaml", "manifest.sha256")
#: Modes in which results are the same.
MODES = [("--parallelism", "1"), ("--parallelism", "2"), ("--cells", "2"), ("--placement", "near"), ("--placement", "far")]


def run(belljar, workdir, file, *args, statuses=(0, 1)):
    """Every file of the results. The folder's name is where guests start: the same for all."""
    data = workdir / "data"
    done = execute([belljar, "run", file, "-o", data, "--no-progress", *args])
    assert done.status in statuses and "processes" in done.out, done
    found = contents_of(data)
    shutil.rmtree(data)
    return found


def assert_same(belljar, workdir, file, *modes):
    """Runs in each mode, a list of options, give the files of the first one, which are returned."""
    expected = run(belljar, workdir, file, *modes[0])
    for mode in modes[1:]:
        found = run(belljar, workdir, file, *mode)
        names = sorted(name for name in expected | found if "--placement" not in mode or name not in PLACED)
        differing = [name for name in names if expected.get(name) != found.get(name)]
        assert not differing, f"{mode}: {differing}"
    return expected
