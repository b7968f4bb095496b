"""Hosts that restart with another root: the image's files are replaced, folders that are kept stay, programs are the new image's."""

import json
import os
import re
import sys

import pytest
from conftest import ROOT, execute
from sameness import MODES, assert_same

from test_root import WORLDS, busybox, layer, put, save

sys.path.insert(0, str(ROOT / "python"))
from belljar import Experiment  # noqa: E402

pytestmark = pytest.mark.needs("busybox")
# Says which version it is and what it finds, and leaves files behind, on its data's folder and beside it.
SERVICE = """
umask 0
cd /var/lib/data
read version < /app/version
echo "v$version level $LEVEL finds $(echo $(cat log 2>&1)), $(echo $(ls)), $(echo $(ls /opt /run/app)), $(pwd) $(id -u)"
echo $version >> log
echo $version > /opt/written
rm -f removed
exec sleep 1000
"""


def image(workdir, version):
    """An image of the service, as `docker save` writes it."""
    folder = workdir / version
    busybox(folder)
    put(folder, "app/version", f"{version}\n")
    put(folder, "app/run", SERVICE)
    put(folder, f"opt/of-{version}")
    put(folder, f"run/app/state-{version}")
    put(folder, f"var/lib/data/of-{version}")
    put(folder, "var/lib/data/removed")
    put(folder, "var/lib/data/sub/inner", f"inner {version}\n")
    config = {"Entrypoint": ["/bin/sh"], "Cmd": ["/app/run"], "Env": [f"LEVEL={version}", "PATH=/bin"], "User": "0" if version == "1" else "7:7"}
    if version == "2":
        config["Cmd"] = ["/app/run", "--newer"]
    (folder / "var/lib/data").chmod(0o777)
    (folder / "opt").chmod(0o777)
    save(workdir / f"{version}.tar", [layer(folder)], config)
    return f"{version}.tar"


@pytest.fixture
def images(workdir):
    return [image(workdir, version) for version in ("1", "2")]


HOST = {"network_node_id": 0, "root": "1.tar", "processes": [{"expected_final_state": "running"}]}
NEW = {"restart": "a", "root": "2.tar", "keep": ["/var/lib/data"]}


def run(belljar, workdir, events, *options, host=HOST, world="run", check=True, file="exp.yaml", output="data", **more):
    text = {"general": {"stop_time": "40 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": {"a": host, "b": host}, "events": events, **more}
    (workdir / file).write_text(json.dumps(text, indent=1))
    done = execute([belljar, world, file, "-o", output, *options], cwd=workdir, env={**os.environ, "BELLJAR_CACHE": str(workdir / "cache")})
    assert not check or done.status == 0, done
    return done, workdir / output


def said(results, host="a"):
    files = sorted((results / "hosts" / host).glob("sh.*.stdout"), key=lambda file: int(file.name.split(".")[1]))
    return [line for file in files for line in file.read_text().splitlines()]


FIRST = "v1 level 1 finds cat: can't open 'log': No such file or directory, of-1 removed sub, /opt: of-1 /run/app: state-1, /var/lib/data 0"
EVENTS = [{"at": "5 s", **NEW}, {"at": "10 s", "crash": "a", "for": "1 s"}, {"at": "15 s", **NEW, "root": "1.tar"}]
WHOLE = [
    FIRST,
    "v2 level 2 finds 1, log of-1 sub, /opt: of-2 /run/app: state-2, /var/lib/data 7",
    # After a crash the host has the new root still, with what was written since.
    "v2 level 2 finds 1 2, log of-1 sub, /opt: of-2 written /run/app: state-2, /var/lib/data 7",
    "v1 level 1 finds 1 2 2, log of-1 sub, /opt: of-1 /run/app: state-1, /var/lib/data 0",
]


@pytest.mark.parametrize("placement", ["near", "far"])
def test_a_new_version_reads_the_data_of_the_old_one_and_back(belljar, workdir, images, placement):
    _, results = run(belljar, workdir, EVENTS, "--placement", placement)
    assert said(results) == WHOLE, said(results)
    assert said(results, "b") == [FIRST]
    # The results hold the data, and of the other files those of the last root alone.
    layer_of_host = results / "hosts/a/fs"
    assert (layer_of_host / "var/lib/data/log").read_text().split() == ["1", "2", "2", "1"]
    assert (layer_of_host / "opt/written").read_text() == "1\n"
    statistics = json.loads((results / "sim-stats.json").read_text())
    assert all(process["as_expected"] for process in statistics["hosts"]["a"]["processes"]), statistics
    read = (results / "manifest.sha256").read_text()
    assert len(set(re.findall(r"images/(\S+)/bin/busybox", read))) == 2, read


def test_a_run_whose_programs_have_ended_waits_for_a_new_root(belljar, workdir, images):
    program = {"path": "sh", "args": ["-c", "cat /app/version"], "environment": {"PATH": "/bin"}}
    host = {**HOST, "processes": [program]}
    _, results = run(belljar, workdir, [{"at": "5 s", "crash": "a"}, {"at": "7 s", **NEW}], hosts={"a": host})
    assert said(results) == ["1", "2"], said(results)
    assert not json.loads((results / "sim-stats.json").read_text()).get("unreached")


def test_the_resolved_experiment_says_the_same(belljar, workdir, images):
    _, results = run(belljar, workdir, EVENTS)
    again = execute([belljar, "run", results / "processed-config.yaml", "-o", workdir / "again"], env={**os.environ, "BELLJAR_CACHE": str(workdir / "cache")})
    assert again.status == 0 and said(workdir / "again") == WHOLE, again


def test_a_root_for_a_time_and_no_folder(belljar, workdir, images):
    """Without kept folders nothing is left of before; after its time the event is undone."""
    _, results = run(belljar, workdir, [{"at": "5 s", **NEW, "keep": [], "for": "5 s"}])
    assert said(results) == [FIRST, FIRST.replace("1", "2").replace("/data 0", "/data 7"), FIRST], said(results)


def test_a_host_that_is_down_starts_with_the_new_root(belljar, workdir, images):
    _, results = run(belljar, workdir, [{"at": "5 s", "crash": "a", "files": "lost"}, {"at": "7 s", **NEW}])
    assert said(results) == [FIRST, WHOLE[1].replace("finds 1, log of-1 sub", "finds " + FIRST.split("finds ")[1].split(", /opt")[0])], said(results)


def test_what_is_not_synced_is_lost_of_the_new_root_as_of_the_old_one(belljar, workdir, images):
    """A crash takes what programs have not synced, and nothing of the root or of what was there before the restart."""
    _, results = run(belljar, workdir, [{"at": "5 s", **NEW}, {"at": "10 s", "crash": "a", "files": "unsynced", "disk": "any", "for": "1 s"}])
    lines = said(results)
    assert lines[:2] == WHOLE[:2] and re.match(r"v2 level 2 finds 1.*, log of-1 sub, /opt: of-2", lines[2]), lines


def test_folders_that_are_not_there_are_named(belljar, workdir, images):
    done, results = run(belljar, workdir, [{"at": "5 s", **NEW, "keep": ["/srv/none", "/var/lib/data"]}])
    assert said(results)[1] == WHOLE[1] and "folders that a restart with another root was to keep and that are not there: /srv/none" in done.err + done.out, done


def test_a_folder_whose_parent_the_new_root_lacks(belljar, workdir, images):
    """A folder that the program has made, below one that only the old image has."""
    put(workdir / "1", "app/run", "mkdir -p /data/own/sub; echo kept > /data/own/sub/file; exec sleep 1000\n")
    put(workdir / "2", "app/run", "cat /data/own/sub/file; ls /data; exec sleep 1000\n")
    (workdir / "1/data").mkdir()
    put(workdir / "1", "data/beside")
    for version in ("1", "2"):
        (workdir / version / "bin/mkdir").symlink_to("/bin/busybox")
    host = {**HOST, "root": "1", "processes": [{"path": "sh", "args": ["/app/run"], "environment": {"PATH": "/bin"}, "expected_final_state": "running"}]}
    _, results = run(belljar, workdir, [{"at": "5 s", **NEW, "root": "2", "keep": ["/data/own"]}], host=host)
    assert said(results) == ["kept", "own"], said(results)


def test_restarts_do_not_depend_on_how_the_run_is_computed(belljar, workdir, images):
    """Each host reads what it has and asks the other one for what that one has, whatever version it is."""
    serve = "while sleep 0.1; do nc -l -p 7 < /var/lib/data/log; done &\n"
    ask = "while :; do echo $RANDOM >> /var/lib/data/log; nc -w 1 PEER 7 < /dev/null | cat; cat /proc/uptime; sleep 0.7; done\n"
    hosts = {}
    for name, peer in (("a", "b"), ("b", "a")):
        for version in ("1", "2"):
            put(workdir / version, f"app/{name}", f"echo version {version}\n{serve}{ask.replace('PEER', peer)}")
            (workdir / version / "bin/nc").unlink(missing_ok=True)
            (workdir / version / "bin/nc").symlink_to("/bin/busybox")
        hosts[name] = {**HOST, "root": "1", "processes": [{"path": "sh", "args": [f"/app/{name}"], "environment": {"PATH": "/bin"}, "expected_final_state": "running"}]}
    events = [{"every": "3 s", "restart": {"one_of": ["a", "b"]}, "root": "2", "keep": ["/var/lib/data"], "for": "2 s"}, {"at": "12 s", "crash": "a", "files": "unsynced", "for": "1 s"}]
    text = {"general": {"stop_time": "15 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": hosts, "events": events}
    (workdir / "same.yaml").write_text(json.dumps(text))
    found = assert_same(belljar, workdir, workdir / "same.yaml", *MODES)
    text = b"".join(content for name, content in found.items() if name.endswith(".stdout")).decode()
    assert text.count("version 1") > 4 and text.count("version 2") >= 3 and re.search(r"^\d+$", text, re.M), text


@pytest.mark.parametrize(("event", "message", "help"), [
    ({"restart": "a", "root": "none.tar", "keep": []}, "there is neither a directory nor an image 'none.tar'", "looked for"),
    ({"restart": "a", "root": "bad.tar", "keep": []}, "'bad.tar' cannot be a root: it is no archive in the format of tar", "docker save"),
    ({"restart": "a", "root": "2.tar"}, "an event has no 'keep'", "add keep: [/var/lib/data], or keep: [] if no file of the host stays"),
    ({"restart": "a", "root": "2.tar", "keep": ["data"]}, "'data' is no absolute path of a folder", "such as /var/lib/data"),
    ({"restart": "a", "root": "2.tar", "keep": ["/bin/sh"]}, "'/bin/sh' is a link in ", "without links"),
    ({"restart": "c", "root": "2.tar", "keep": []}, "host 'c' has the files of this machine, so it cannot get another root", "give the host a root at its start"),
    ({"restart": "a", "keep": ["/srv"]}, "'keep' is not valid without 'root'", "leave it out"),
])
def test_wrong_events_are_refused_with_their_line(belljar, workdir, images, event, message, help):
    (workdir / "bad.tar").write_bytes(b"x" * 4096)
    hosts = {"a": HOST, "c": {"network_node_id": 0, "processes": [{"path": sys.executable}]}}
    done, _ = run(belljar, workdir, [{"at": "5 s", **event}, {"at": "1 s", "crash": "all", "for": "1 s"}], check=False, hosts=hosts)
    assert done.status == 2 and message in done.err and help in done.err and re.search(r"exp\.yaml:\d+:", done.err), done


def test_python_says_what_the_file_says():
    e = Experiment(stop_time="40 s")
    e.restart("a", root="2.tar", keep=["/var/lib/data"], at="5 s").restart("a", root="2.tar", keep=[], at="9 s", lasting="1 s")
    assert e.events == [{"at": "5 s", **NEW}, {"at": "9 s", **NEW, "keep": [], "for": "1 s"}]


@pytest.mark.parametrize("world", WORLDS[1:])
def test_emulations_refuse(belljar, workdir, images, world):
    done, _ = run(belljar, workdir, [{"at": "5 s", **NEW}], world=world, check=False)
    assert done.status == 2 and "an emulated host has the same root to its end" in done.err and "exp.yaml:" in done.err, done


def test_the_explorer_draws_restarts_with_another_root(belljar, workdir, images):
    """The old version does not read what the new one has written."""
    put(workdir / "1", "app/run", "read found < /var/lib/data/format && test $found != 1 && exit 1; echo 1 > /var/lib/data/format; exec sleep 1000\n")
    put(workdir / "2", "app/run", "echo 2 > /var/lib/data/format; exec sleep 1000\n")
    host = {**HOST, "root": "1", "processes": [{"path": "sh", "args": ["/app/run"], "environment": {"PATH": "/bin"}, "expected_final_state": "running"}]}
    upgrade = {"restart": "all", "root": "2", "keep": ["/var/lib/data"]}
    text = {"general": {"stop_time": "40 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": {"a": host, "b": host},
            "explore": {"between": ["2 s", "20 s"], "kinds": {"upgrade": {"upgrades": [upgrade]}}}}
    (workdir / "explored.yaml").write_text(json.dumps(text))
    done = execute([belljar, "explore", "explored.yaml", "--budget", "8runs"], cwd=workdir)
    report = json.loads((workdir / "explored.explore/report.json").read_text())
    assert done.status == 1 and [finding["symptom"] for finding in report["findings"]] == ["sh exited 1"], done
    (event,) = report["findings"][0]["events"]
    assert re.search(r"restart: \[[ab]\], root: .*/2, keep: \[/var/lib/data\], for: ", event), event
