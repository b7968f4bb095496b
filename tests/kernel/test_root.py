"""Hosts whose files are a directory or an image: their programs run without this machine having them, simulated and emulated."""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile

import pytest
from conftest import execute

IS_ROOT = os.geteuid() == 0


def can_emulate():
    return IS_ROOT or subprocess.run(["unshare", "-Urn", "true"], capture_output=True).returncode == 0


WORLDS = ["run", pytest.param("emulate", marks=pytest.mark.skipif(not can_emulate(), reason="needs root, or user namespaces"))]


def run(belljar, workdir, world, hosts, *options, check=True):
    (workdir / "exp.yaml").write_text(json.dumps({
        "general": {"stop_time": "100 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": hosts}))
    more = ["--until-done"] if world == "emulate" else []
    done = execute([belljar, world, "exp.yaml", "-o", world, *more, *options], cwd=workdir,
                   env={**os.environ, "BELLJAR_CACHE": str(workdir / "cache")})
    assert not check or done.status == 0, done
    return done, workdir / world


def output(results, host):
    return "".join(file.read_text() for file in sorted((results / "hosts" / host).glob("*.std*")))


def put(folder, path, content="", mode=0o644):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(mode)


def busybox(folder):
    (folder / "bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), folder / "bin/busybox")
    for applet in ("sh", "ls", "cat", "rm", "id", "wget", "httpd", "env", "sleep"):
        (folder / "bin" / applet).symlink_to("/bin/busybox")
    put(folder, "etc/passwd", "root:x:0:0::/root:/bin/sh\nservice:x:7:7::/srv:/bin/sh\n")


def owned_by_root(entry):
    entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, "", ""
    return entry


def layer(folder):
    """A layer as a tarball in memory, whose files are root's."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=owned_by_root)
    return packed.getvalue()


def save(file, layers, config, architecture="amd64"):
    """An image as `docker save` writes it."""
    document = json.dumps({"architecture": architecture, "os": "linux", "config": config, "rootfs": {
        "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(one).hexdigest() for one in layers]}}).encode()
    parts = {f"{number}/layer.tar": one for number, one in enumerate(layers)}
    manifest = [{"Config": "config.json", "RepoTags": ["test:1"], "Layers": list(parts)}]
    with tarfile.open(file, "w") as archive:
        for name, content in {**parts, "config.json": document, "manifest.json": json.dumps(manifest).encode()}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def tree(folder):
    """Everything below a folder, to see that nothing changes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        stat = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (stat.st_mode, stat.st_size if path.is_file() else 0, stat.st_mtime_ns, content)
    return found


SCRIPT = """
set -e
cat /etc/motd /etc/hostname
grep -c other /etc/hosts
ls /usr/bin /opt /run 2>&1 || true
echo changed > /etc/motd
rm /opt/removed
echo new > /opt/new
echo top > /top
cat /etc/motd
ls /opt /run/app
"""


@pytest.mark.needs("busybox")
@pytest.mark.parametrize("world", WORLDS)
def test_a_directory_is_a_hosts_root_and_stays_as_it_is(belljar, workdir, world):
    root = workdir / "root"
    busybox(root)
    (root / "bin/grep").symlink_to("busybox")
    put(root, "etc/motd", "the root's\n")
    put(root, "opt/removed")
    put(root, "run/app/state")
    before = tree(root)
    hosts = {name: {"network_node_id": 0, "root": "root", "processes": [{"path": "/bin/sh", "args": ["-c", SCRIPT]}]} for name in ("one", "other")}
    _, results = run(belljar, workdir, world, hosts)
    for name in hosts:
        lines = output(results, name).splitlines()
        assert lines[:3] == ["the root's", name, "1"], lines
        assert "ls: /usr/bin: No such file or directory" in lines and lines[-6:] == ["changed", "/opt:", "new", "", "/run/app:", "state"], lines
        upper = results / "hosts" / name / "fs"
        assert (upper / "etc/motd").read_text() == "changed\n" and (upper / "top").read_text() == "top\n"
    assert tree(root) == before, "the root was written to"


@pytest.mark.needs("busybox")
@pytest.mark.parametrize("world", WORLDS)
def test_an_image_gives_program_environment_user_and_directory(belljar, workdir, world):
    first, second = workdir / "first", workdir / "second"
    busybox(first)
    put(first, "etc/motd", "lower\n")
    put(first, "opt/gone")
    put(first, "app/start", "#!/bin/sh\necho start $0 $@\npwd\nid -u\necho $GREETING $OTHER $HOME\ncat /etc/motd\nls /opt\n", 0o755)
    put(second, "etc/motd", "upper\n")
    put(second, "opt/.wh.gone")
    put(second, "opt/kept")
    user = "service" if IS_ROOT else ""
    config = {"Env": ["PATH=/app:/bin", "GREETING=hello", "OTHER=image"], "Entrypoint": ["start", "first"], "Cmd": ["second"],
              "WorkingDir": "/app", "User": user}
    save(workdir / "image.tar", [layer(first), layer(second)], config)
    shutil.rmtree(first)
    shutil.rmtree(second)
    hosts = {
        "plain": {"network_node_id": 0, "root": "image.tar", "processes": [{}]},
        "told": {"network_node_id": 0, "root": "image.tar", "processes": [
            {"args": "third", "environment": {"OTHER": "experiment"}}]},
        "else": {"network_node_id": 0, "root": "image.tar", "processes": [{"path": "cat", "args": "/etc/motd", **({"user": "root"} if IS_ROOT else {})}]},
    }
    _, results = run(belljar, workdir, world, hosts)
    uid, home = ("7", "/srv") if IS_ROOT else ("0", "/root")
    assert output(results, "plain").splitlines() == ["start /app/start first second", "/app", uid, f"hello image {home}", "upper", "kept"]
    assert output(results, "told").splitlines()[:4] == ["start /app/start first third", "/app", uid, f"hello experiment {home}"]
    assert output(results, "else") == "upper\n"
    # The resolved experiment says the same again.
    again = execute([belljar, "validate", results / ("experiment.yaml" if (results / "experiment.yaml").exists() else "processed-config.yaml")],
                    env={**os.environ, "BELLJAR_CACHE": str(workdir / "cache")})
    assert again.status == 0, again


LIBRARY = "const char *greeting(void) { return \"library %d of the root\\n\"; }"
PROGRAM = """#define _GNU_SOURCE
#include <stdio.h>
#include <dlfcn.h>
const char *greeting(void);
int main(void) { fputs(greeting(), stdout); Dl_info info; dladdr((void *)greeting, &info); puts(info.dli_fname); return 0; }
"""


@pytest.mark.needs("gcc", "ldd")
@pytest.mark.parametrize("world", WORLDS)
def test_loader_and_libraries_come_from_the_root(belljar, workdir, world):
    """Two roots with another version each of a library that this machine has not, and a loader at a place of their own."""
    hosts = {}
    for version in (1, 2):
        root = workdir / f"root{version}"
        (root / "lib/own").mkdir(parents=True)
        (root / "usr/bin").mkdir(parents=True)
        library, program = root / "lib/own/libgreet.so.7", root / "usr/bin/greet"
        (workdir / "library.c").write_text(LIBRARY % version)
        (workdir / "program.c").write_text(PROGRAM)
        subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libgreet.so.7", "-o", library, workdir / "library.c"], check=True)
        subprocess.run(["gcc", "-o", program, workdir / "program.c", library, "-Wl,-rpath,/lib/own", "-Wl,--dynamic-linker=/lib/own/loader"], check=True)
        subprocess.run(["cp", "/lib64/ld-linux-x86-64.so.2", root / "lib/own/loader"], check=True)
        linked = subprocess.run(["ldd", "/bin/true"], capture_output=True, text=True, check=True).stdout
        libc = next(word for word in linked.split() if word.endswith("libc.so.6") and word.startswith("/"))
        shutil.copy(libc, root / "lib/own/libc.so.6")
        hosts[f"host{version}"] = {"network_node_id": 0, "root": f"root{version}", "processes": [{"path": "greet"}]}
    _, results = run(belljar, workdir, world, hosts)
    for version in (1, 2):
        assert output(results, f"host{version}") == f"library {version} of the root\n/lib/own/libgreet.so.7\n"


@pytest.mark.needs("musl-gcc")
@pytest.mark.parametrize("world", WORLDS)
def test_programs_of_musl_have_their_own_loader(belljar, workdir, world):
    root = workdir / "root"
    (root / "lib").mkdir(parents=True)
    (workdir / "program.c").write_text('#include <stdio.h>\nint main(void) { puts("musl"); return 0; }\n')
    subprocess.run(["musl-gcc", "-o", root / "lib/program", workdir / "program.c", "-Wl,--dynamic-linker=/lib/ld-musl.so.1"], check=True)
    loader = "/lib/ld-musl-x86_64.so.1"
    if not os.path.exists(loader):
        pytest.skip("musl's loader is not installed")
    shutil.copy(os.path.realpath(loader), root / "lib/ld-musl.so.1")
    _, results = run(belljar, workdir, world, {"a": {"network_node_id": 0, "root": "root", "processes": [{"path": "/lib/program"}]}})
    assert output(results, "a") == "musl\n"


@pytest.mark.needs("busybox")
@pytest.mark.parametrize("world", WORLDS)
def test_images_speak_with_programs_of_this_machine(belljar, workdir, world):
    root = workdir / "root"
    busybox(root)
    put(root, "srv/page", "from the image\n")
    hosts = {
        "server": {"network_node_id": 0, "root": "root", "processes": [
            {"path": "httpd", "args": "-f -p 80 -h /srv", "expected_final_state": "running"}]},
        "client": {"network_node_id": 0, "processes": [
            {"path": "sh", "args": ["-c", "until busybox wget -q -O - http://server/page 2> /dev/null; do sleep 0.1; done"], "start_time": "1 s"}]},
    }
    _, results = run(belljar, workdir, world, hosts)
    assert output(results, "client") == "from the image\n"


@pytest.mark.needs("busybox")
def test_same_seed_same_bytes_wherever_the_cache_is(belljar, workdir):
    """What programs see, inode numbers included, does not depend on where the image was unpacked."""
    first = workdir / "first"
    busybox(first)
    put(first, "etc/motd", "x")
    save(workdir / "image.tar", [layer(first)], {})
    script = "ls -lai / /etc /bin /run; cat /proc/self/maps; cat /proc/sys/kernel/random/uuid"
    hosts = {"a": {"network_node_id": 0, "root": "image.tar", "processes": [{"path": "/bin/sh", "args": ["-c", script]}]}}
    seen = []
    for cache in ("short", "a/much/longer/one"):
        (workdir / "exp.yaml").write_text(json.dumps({
            "general": {"stop_time": "20 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": hosts}))
        done = execute([belljar, "run", "exp.yaml", "-o", "data"], cwd=workdir, env={**os.environ, "BELLJAR_CACHE": str(workdir / cache)})
        assert done.status == 0, done
        seen.append(output(workdir / "data", "a"))
        shutil.rmtree(workdir / "data")
    assert seen[0] == seen[1] and "/bin/busybox" in seen[0]


def test_a_wrong_root_is_one_error_with_file_and_line(belljar, workdir):
    (workdir / "bad.tar").write_bytes(b"x" * 4096)
    done, _ = run(belljar, workdir, "run", {"a": {"network_node_id": 0, "root": "bad.tar", "processes": []}}, check=False)
    assert done.status != 0 and "'bad.tar' cannot be a root: it is no archive in the format of tar" in done.err and "exp.yaml:1:" in done.err, done


@pytest.mark.needs("busybox")
def test_an_image_without_its_working_directory_is_one_error(belljar, workdir):
    busybox(workdir / "first")
    save(workdir / "image.tar", [layer(workdir / "first")], {"WorkingDir": "/none"})
    done, _ = run(belljar, workdir, "run", {"a": {"network_node_id": 0, "root": "image.tar", "processes": []}}, check=False)
    assert done.status != 0 and "'image.tar' is to be run in '/none', which is not in it" in done.err, done
    assert "help: make the image again, with this directory" in done.err, done


@pytest.mark.needs("busybox")
def test_a_run_killed_while_it_unpacks_leaves_nothing_that_is_used(belljar, workdir):
    first = workdir / "first"
    busybox(first)
    for number in range(40):
        put(first, f"data/{number}", "x" * 1_000_000)
    save(workdir / "image.tar", [layer(first)], {})
    hosts = {"a": {"network_node_id": 0, "root": "image.tar", "processes": [{"path": "/bin/ls", "args": "/data"}]}}
    (workdir / "exp.yaml").write_text(json.dumps({
        "general": {"stop_time": "20 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": hosts}))
    environment = {**os.environ, "BELLJAR_CACHE": str(workdir / "cache")}
    killed = subprocess.Popen([belljar, "validate", "exp.yaml"], cwd=workdir, env=environment, stdout=subprocess.DEVNULL)
    while killed.poll() is None and not list((workdir / "cache").glob("images/*.partial/data/1*")):
        pass
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    _, results = run(belljar, workdir, "run", hosts)
    assert len(output(results, "a").split()) == 40
    assert not list((workdir / "cache").glob("images/*.partial"))
