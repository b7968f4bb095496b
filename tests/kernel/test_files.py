"""The files of hosts: private layers, what the results say of them, sharing, and the budget of descriptors."""

import os
import resource
import subprocess

from conftest import experiment, execute


def shell(script, **more):
    return {"path": "/bin/sh", "args": ["-c", script], **more}


def watched():
    """What the machine's own files are that the guests below touch."""
    names = ["/etc/passwd", "/etc/motd", "/srv", "/usr/local", "/usr/share/doc/bash"]
    return [(n, os.stat(n).st_mtime_ns, os.stat(n).st_ino) for n in names if os.path.exists(n)]


SCRIPT = """
echo $HOSTNAME >> /etc/passwd; rm -r /usr/share/doc/bash; mkdir /srv/new; echo kept > /srv/new/file
ln /srv/new/file /srv/new/link; chown 5:6 /srv/new/file; chmod 640 /srv/new/file; mv /usr/local /srv/moved
exec 3> /srv/open; rm /srv/open; echo x >&3; ls -l /srv | wc -l; wc -c < /srv/new/file
"""


def test_hosts_never_meet_and_the_machine_stays_as_it_is(run_experiment):
    before = watched()
    hosts = {name: (0, [shell(SCRIPT, environment={"HOSTNAME": name})]) for name in ("a", "b")}
    run = run_experiment(experiment(hosts))
    assert watched() == before
    for name in ("a", "b"):
        layer = run.host(name) / "fs"
        assert (layer / "etc/passwd").read_text().endswith(f"\n{name}\n")
        assert (layer / "srv/new/file").read_text() == "kept\n"
        assert sorted(p.name for p in layer.iterdir()) == ["etc", "srv"], "nothing is left of files without names"
        said = (run.host(name) / "files.mtree").read_text()
        assert said.startswith("#mtree\n")
        lines = {line.split()[0]: line for line in said.splitlines()[1:]}
        assert "mode=0640 uid=5 gid=6" in lines["./fs/srv/new/file"]
        number = lines["./fs/srv/new/file"].split("inode=")[1]
        assert lines["./fs/srv/new/link"].endswith(f"nlink=2 inode={number}")
        assert lines["./fs/usr/local"] == "./fs/usr/local type=char device=linux,0,0"
        assert lines["./fs/srv/moved"].endswith("origin=/usr/local")
        assert "./fs/srv/open" not in lines


def test_a_run_goes_on_with_the_files_of_another(run_experiment):
    first = run_experiment(experiment({"a": (0, [shell(SCRIPT)])}))
    look = "ls /usr/share/doc/bash; stat -c '%h %a %u %g' /srv/new/file; ls -d /srv/moved/bin; cat /srv/new/link"
    again = experiment({"a": (0, [shell(look)])}, template_directory=str(first.path))
    second = run_experiment(again)
    assert second.text("a", "sh") == "2 640 5 6\n/srv/moved/bin\nkept\n"
    assert "No such file" in second.streams("a", kind="stderr")[0].read_text()


def test_shared_directories_pass_through(run_experiment, workdir):
    common = workdir / "common"
    common.mkdir()
    (common / "given").write_text("from outside\n")
    write = shell(f"cat {common}/given; echo from a > {common}/new; mkdir {common}/dir; echo x > {common}/dir/y")
    read = shell(f"sleep 1; cat {common}/new {common}/dir/y; rm {common}/given; ls {common}")
    spec = experiment({"a": (0, [write]), "b": (0, [read])})
    for host in spec["hosts"].values():
        host["host_options"] = {"shared": [str(common)]}
    run = run_experiment(spec)
    assert run.text("a") == "from outside\n"
    assert run.text("b") == "from a\nx\ndir\nnew\n"
    assert sorted(p.name for p in common.iterdir()) == ["dir", "new"]


def test_sockets_in_shared_directories(run_experiment, workdir):
    """What a program binds or makes there is found by its host, though the machine does not see it."""
    common = workdir / "common"
    common.mkdir()
    script = """
import os, socket
os.chdir(COMMON)
server = socket.create_server("s", family=socket.AF_UNIX)
os.chmod("s", 0o700)
client = socket.socket(socket.AF_UNIX)
client.connect("s")
os.mkfifo("f")
print(oct(os.stat("s").st_mode), sorted(os.listdir()), os.path.exists("f"))
os.unlink("s"), os.unlink("f")
print(os.listdir())
""".replace("COMMON", repr(str(common)))
    spec = experiment({"a": (0, [("/usr/bin/python3", "-c", script)])})
    spec["hosts"]["a"]["host_options"] = {"shared": [str(common)]}
    assert run_experiment(spec).text("a") == "0o140700 ['f', 's'] True\n[]\n"
    assert list(common.iterdir()) == []


def test_many_open_files_fit_few_descriptors(belljar, workdir):
    """Each host has forty files open at once, and the simulator may have 400 descriptors in all."""
    script = """
import os
files = [os.open(f"/srv/{n}", os.O_CREAT | os.O_RDWR) for n in range(40)]
for n, f in enumerate(files[:20]):
    os.unlink(f"/srv/{n}")
for turn in range(3):
    for n, f in enumerate(files):
        os.write(f, b"%d\\n" % n)
print(all(os.pread(f, 100, 0) == b"%d\\n" % n * 3 for n, f in enumerate(files)))
"""
    (workdir / "many.py").write_text(script)
    spec = experiment({f"h{n}": (0, [("/usr/bin/python3", workdir / "many.py")]) for n in range(12)})
    import yaml

    (workdir / "many.yaml").write_text(yaml.safe_dump(spec))
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))
    done = subprocess.run(
        [belljar, "run", workdir / "many.yaml", "-o", workdir / "out"], preexec_fn=few, capture_output=True, timeout=600
    )
    assert done.returncode == 0, done.stderr.decode()
    for n in range(12):
        assert next((workdir / "out/hosts" / f"h{n}").glob("*.stdout")).read_text() == "True\n"


def test_a_process_of_another_user(run_experiment):
    look = "id -u; touch /etc/x; cat /etc/shadow; echo mine > mine; stat -c %u mine; touch /tmp/t; cat /proc/self/environ > /dev/null"
    run = run_experiment(experiment({"a": (0, [shell(look, user="nobody")])}), status=None)
    assert run.text("a") == "65534\n65534\n"
    said = run.streams("a", kind="stderr")[0].read_text()
    assert said.count("Permission denied") == 2, said


def test_the_machine_fails(belljar, workdir):
    """Where the results cannot be written there is one message, not a broken run."""
    (workdir / "e.yaml").write_text("network: { graph: { type: 1_gbit_switch } }\ngeneral: { stop_time: 1 s }\n"
                                    "hosts: { a: { network_node_id: 0, processes: [ { path: /bin/true } ] } }\n")
    run = execute([belljar, "run", workdir / "e.yaml", "-o", "/proc/nowhere/out"])
    assert run.status != 0 and run.err.count("\n") <= 3 and "/proc/nowhere" in run.err, str(run)
