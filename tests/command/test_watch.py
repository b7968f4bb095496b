"""`belljar run --watch`, the default results folder, `--quiet` and colours."""

import os
import pty
import signal
import subprocess

import yaml
from conftest import execute, experiment, graph


def write(workdir, *args):
    content = experiment({"alice": (0, [("/bin/cat", *args)])}, graph((0, 0, "1 ms")), stop="2 s")
    (workdir / "one.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def test_results_are_named_after_the_file(belljar, workdir):
    write(workdir, "/dev/null")
    (workdir / "sub").mkdir()
    done = execute([belljar, "run", "../one.yaml"], cwd=workdir / "sub")
    assert done.status == 0 and (workdir / "sub/one.data/sim-stats.json").exists(), done
    with (workdir / "one.yaml").open() as text:
        execute([belljar, "run", "-"], cwd=workdir, stdin=text)
    assert (workdir / "experiment.data/sim-stats.json").exists()
    execute([belljar, "shadow", "one.yaml"], cwd=workdir)
    assert (workdir / "shadow.data/sim-stats.json").exists()
    execute([belljar, "run", "one.yaml", "--set", "general.data_directory=named"], cwd=workdir)
    assert (workdir / "named/sim-stats.json").exists() and not (workdir / "one.data").exists()


def test_quiet(belljar, workdir):
    write(workdir, "/dev/null")
    done = execute([belljar, "run", "one.yaml", "-q"], cwd=workdir)
    assert (done.status, done.out, done.err) == (0, "", ""), done
    done = execute([belljar, "run", "one.yaml", "-q"], cwd=workdir)
    assert done.status == 2 and "exists already" in done.err


def test_watch_runs_again_when_a_file_changes(belljar, workdir):
    (workdir / "input").write_text("first")
    write(workdir, str(workdir / "input"))
    said = workdir / "one.data/hosts/alice/cat.1000.stdout"
    process = subprocess.Popen([belljar, "run", "one.yaml", "--watch"], cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        assert "watching 2 files" in process.stderr.readline()
        assert said.read_text() == "first"
        (workdir / "input").write_text("second")
        assert "watching 2 files" in process.stderr.readline()
        assert said.read_text() == "second"
        write(workdir, "/dev/null")
        assert "watching 1 files" in process.stderr.readline()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_watch_replaces_only_its_own_results(belljar, workdir):
    write(workdir, "/dev/null")
    assert execute([belljar, "run", "one.yaml"], cwd=workdir).status == 0
    done = execute([belljar, "run", "one.yaml", "--watch"], cwd=workdir)
    assert done.status == 2 and "exists already" in done.err, done


def test_colours_only_on_a_terminal(belljar, workdir):
    def errors(env):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([belljar, "validate", "nothing.yaml"], cwd=workdir, stderr=theirs, env={**os.environ, "TERM": "xterm", **env})
        os.close(theirs)
        text = os.read(ours, 4096)
        process.wait()
        os.close(ours)
        return text

    assert errors({}).startswith(b"\x1b[1;31merror:")
    assert errors({"NO_COLOR": "1"}).startswith(b"error:")
    assert execute([belljar, "validate", "nothing.yaml"], cwd=workdir).err.startswith("error:")
