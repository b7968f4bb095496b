"""Debian's daemons as its packages install and configure them: they fork, take on users, serve, log and save as on any
machine, the same near and far; hosts that run the same one never meet, and the machine's own files stay as they are."""

import hashlib
import os
import pathlib
import re
import shutil
import stat

import pytest
from conftest import EXAMPLES, experiment

PLACEMENTS = ("auto", "near", "far")
LICENSE = pathlib.Path("/usr/share/common-licenses/GPL-3")
LIBC = pathlib.Path("/usr/lib/x86_64-linux-gnu/libc.so.6")
# What the packages of the daemons own, and what a daemon that escaped would write to.
WATCHED = ["/etc", "/run", "/srv", "/var/lib", "/var/log", "/var/www", "/var/spool", "/dev/shm"]
OF_DAEMONS = re.compile("nginx|apache|redis|postgres|lighttpd|haproxy|memcached|mosquitto|/www|/etc/|gunicorn")

# What each reads of the machine that Debian lets only its own user, or root, read.
PRIVATE = {
    "nginx": ["/var/log/nginx/access.log", "/var/log/nginx/error.log"],
    "apache2": [],
    "lighttpd": ["/var/cache/lighttpd"],
    "redis-server": ["/etc/redis/redis.conf"],
    "memcached": [],
}


def daemon(name, *programs):
    """Marks a test that needs a daemon, and programs beside it."""

    def mark(test):
        return pytest.mark.needs(name, *programs)(pytest.mark.reads(*PRIVATE[name])(test))

    return mark


nginx = daemon("nginx", "curl", "wget")
apache = daemon("apache2", "apache2ctl", "curl", "wget")
redis = pytest.mark.needs("redis-server", "redis-cli")
postgres = pytest.mark.needs("pg_createcluster", "pgbench", "psql")


def fingerprint():
    """Name, kind, size and time of everything in the watched directories that a daemon could touch."""
    found = hashlib.sha256()
    for top in WATCHED:
        for folder, folders, files in os.walk(top):
            folders.sort()
            for name in sorted(folders + files):
                path = os.path.join(folder, name)
                if OF_DAEMONS.search(path):
                    s = os.lstat(path)
                    size = s.st_size if stat.S_ISREG(s.st_mode) else 0
                    found.update(f"{path} {s.st_mode} {s.st_uid} {size} {s.st_mtime_ns}\n".encode())
    return found.hexdigest()


@pytest.fixture(autouse=True)
def machine_stays_as_it_is():
    before = fingerprint()
    yield
    assert fingerprint() == before, f"a simulated daemon has changed the machine's own files: one of {WATCHED}"


def contents(results):
    """Every file below hosts/ by name; the results make room for another run in the same place."""
    files = (results.path / "hosts").rglob("*")
    found = {str(f.relative_to(results.path)): f.read_bytes() for f in files if f.is_file() and not f.is_symlink()}
    shutil.rmtree(results.path)
    return found


def same_in_every_placement(run_experiment, what, **options):
    """Runs it near, far and as it comes; the files of all hosts must be the same bytes. Gives them."""
    runs = {p: contents(run_experiment(what, args=["--placement", p], name="same", **options)) for p in PLACEMENTS}
    for placement in PLACEMENTS[1:]:
        assert set(runs[placement]) == set(runs["auto"]), placement
        differing = [name for name, bytes in runs["auto"].items() if runs[placement][name] != bytes]
        assert not differing, f"differ between auto and {placement}: {differing}"
    return runs["auto"]


@nginx
@apache
def test_servers(run_experiment):
    files = same_in_every_placement(run_experiment, EXAMPLES / "servers.yaml")
    for n in range(10):
        for server in ("nginx", "apache"):
            assert files[f"hosts/client{n}/{server}.out"] == LIBC.read_bytes()
            assert files[f"hosts/client{n}/{server}.txt"] == LICENSE.read_bytes()
    for log in ("nginx/fs/var/log/nginx/access.log", "apache/fs/var/log/apache2/access.log"):
        lines = files[f"hosts/{log}"].decode().splitlines()
        agents = [re.search(r'"(curl|Wget)/[^"]*"$', line)[1] for line in lines]
        assert sorted(agents) == ["Wget"] * 10 + ["curl"] * 10, lines
        assert all(line.split()[8] == "200" for line in lines)
    assert int(files["hosts/nginx/fs/run/nginx.pid"]) > 1000
    assert int(files["hosts/apache/fs/run/apache2/apache2.pid"]) > 1000


@redis
def test_replication(run_experiment):
    files = same_in_every_placement(run_experiment, EXAMPLES / "replication.yaml")

    def said(host):
        names = [n for n in files if re.fullmatch(rf"hosts/{host}/redis-cli\.\d+\.stdout", n)]
        return [files[n].decode().strip() for n in sorted(names)]

    assert said("master") == [
        "OK", "Background saving started", "OK", "OK", "Background append only file rewriting started", "OK", "1", "",
        "1\n2\n3",
    ]
    assert said("replica")[0] == "1\n2\n3" and said("replica")[1].startswith("READONLY"), said("replica")
    for host in ("master", "replica"):
        assert files[f"hosts/{host}/fs/var/lib/redis/dump.rdb"].startswith(b"REDIS")
    log = files["hosts/master/fs/var/log/redis/redis-server.log"].decode()
    for line in ("DB saved on disk", "Background AOF rewrite finished successfully", "Synchronization with replica",
                 "DB loaded from append only file"):
        assert line in log, line
    assert any(n.startswith("hosts/master/fs/var/lib/redis/appendonlydir/") for n in files)


@postgres
def test_postgres_in_every_placement(run_experiment):
    same_in_every_placement(run_experiment, EXAMPLES / "postgres.yaml")


@postgres
def test_postgres(run_experiment):
    files = contents(run_experiment(EXAMPLES / "postgres.yaml"))

    def said(host, program):
        names = [n for n in files if re.fullmatch(rf"hosts/{host}/{program}\.\d+\.stdout", n)]
        return [files[n].decode() for n in sorted(names)]

    assert said("client", "psql") == ["100000|0\n", "20\n"] or said("client", "psql") == ["100000|0\n", "120\n"]
    within, = [text for text in said("db", "pgbench") if "tps" in text]
    assert "actually processed: 100/100" in within, within
    over, = said("client", "pgbench")
    assert "actually processed: 20/20" in over, over
    # seven statements, each of which waits 2 ms for its answer, and what the server's own waits add
    assert 14.0 <= float(re.search(r"latency average = ([\d.]+) ms", over)[1]) < 15, over
    log = next(text.decode() for name, text in files.items() if name.endswith("-sim.log"))
    assert "database system is ready to accept connections" in log and "FATAL" not in log, log


@redis
@nginx
@postgres
def test_hosts_on_the_same_paths_never_meet(run_experiment):
    version = sorted(os.listdir("/usr/lib/postgresql"), key=int)[-1]

    def host(own):
        query = f"create table t (x text); insert into t values ('{own}'); select * from t"
        return (0, [
            {"path": "redis-server", "args": "--daemonize yes --dir /var/lib/redis"},
            {"path": "sh", "args": ["-c", f"echo {own} > /var/www/html/index.html && exec nginx"]},
            {"path": "pg_createcluster", "args": f"{version} sim -p 5432 --start"},
            {"path": "redis-cli", "args": f"append owner {own}", "start_time": "2 s"},
            {"path": "redis-cli", "args": "get owner", "start_time": "3 s"},
            {"path": "redis-cli", "args": "shutdown", "start_time": "4 s"},
            {"path": "curl", "args": "-sS http://localhost/", "start_time": "4 s"},
            {"path": "psql", "user": "postgres", "args": ["-Atqc", query], "start_time": "10 s"},
            {"path": "pg_ctlcluster", "args": f"{version} sim stop", "start_time": "15 s"},
        ])

    done = run_experiment(experiment({"a": host("xyzzy-a"), "b": host("plugh-b")}, stop="30 s"))
    for name, own, other in (("a", b"xyzzy-a", b"plugh-b"), ("b", b"plugh-b", b"xyzzy-a")):
        assert done.streams(name, "redis-cli")[1].read_bytes() == own + b"\n"
        assert done.stdout(name, "curl") == own + b"\n"
        assert done.stdout(name, "psql") == own + b"\n"
        fs = done.host(name) / "fs"
        dump = (fs / "var/lib/redis/dump.rdb").read_bytes()
        assert own in dump and other not in dump
        assert (fs / "var/www/html/index.html").read_bytes() == own + b"\n"
        data = b"".join(f.read_bytes() for f in (fs / f"var/lib/postgresql/{version}/sim/base").rglob("*") if f.is_file())
        assert own in data and other not in data


SCRIPTS = {
    "nginx": "curl -sSI http://localhost/",
    "apache2": "curl -sSI http://localhost/",
    "lighttpd": "curl -sSI http://localhost/",
    "redis-server": "redis-cli ping",
    "memcached": "memcping --servers=localhost",
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.reads(*PRIVATE[name])) for name in SCRIPTS])
def test_init_script(run_experiment, name):
    """start, use, status, restart, use, stop, and nothing answers any more."""
    script, (client, *args) = f"/etc/init.d/{name}", SCRIPTS[name].split()
    if not pathlib.Path(script).exists() or not shutil.which(client):
        pytest.skip(f"{name} or {client} is not installed")

    def at(second, path, *args, state=0):
        state = state if isinstance(state, str) else {"exited": state}
        return {"path": path, "args": list(args), "start_time": f"{second} s", "expected_final_state": state}

    done = run_experiment(experiment({"host": (0, [
        at(0, script, "start"), at(5, client, *args), at(6, script, "status"), at(7, script, "restart"),
        at(12, client, *args), at(13, script, "stop"), at(20, client, *args, state="any"),
    ])}, stop="30 s"))
    before, again, after = ((f.read_text(), f.with_suffix(".stderr").read_text()) for f in done.streams("host", client))
    assert before[0].split("\n")[0] == again[0].split("\n")[0], (before, again)
    assert before != after, "it still answers after it was stopped"


USERS = r"""
id -u; id -un; id -G; echo $HOME $USER
grep -c . /proc/self/status; grep ^Cap /proc/self/status
touch mine; stat -c %U mine
setpriv --reuid 0 true 2>&1 || echo stays
"""


def test_user(run_experiment):
    processes = [
        {"path": "sh", "user": "daemon", "args": ["-c", USERS]},
        {"path": "id", "user": "4711"},
        {"path": "setpriv", "args": "--reuid nobody --regid nogroup --clear-groups id"},
        {"path": "sh", "user": "nobody", "environment": {"HOME": "/nowhere"}, "args": ["-c", "echo $HOME"]},
        {"path": "id", "user": "no-such-user", "expected_final_state": "any"},
    ]
    done = run_experiment(experiment({"host": (0, processes)}), status=1)
    shells, ids = done.streams("host", "sh"), done.streams("host", "id")
    said = shells[0].read_text().splitlines()
    assert said[:4] == ["1", "daemon", "1", "/usr/sbin daemon"], said
    assert "CapEff:\t0000000000000000" in said and said[-1] == "stays" and "daemon" in said[-3:], said
    assert ids[0].read_text() == "uid=4711 gid=4711 groups=4711\n"
    assert done.text("host", "setpriv") == "uid=65534(nobody) gid=65534(nogroup) groups=65534(nogroup)\n"
    assert shells[1].read_text() == "/nowhere\n"
    assert "the host has no user 'no-such-user' in its /etc/passwd" in done.out, done.out


HAPROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 50s
    timeout server 50s
frontend web
    bind *:80
    default_backend all
backend all
    balance roundrobin
    option httpchk GET /
    server one one:80 check
    server two two:80 check
"""


@nginx
@pytest.mark.needs("haproxy")
def test_haproxy_balances_and_notices_the_dead(run_experiment, workdir):
    (workdir / "haproxy.cfg").write_text(HAPROXY)

    def web(name):
        return (0, [{"path": "sh", "args": ["-c", f"echo {name} > /var/www/html/index.html && exec nginx"]},
                    {"path": "nginx", "args": "-s stop", "start_time": "20 s" if name == "two" else "50 s"}])

    gets = [{"path": "curl", "args": "-sS http://balancer/", "start_time": f"{t} s"} for t in (5, 6, 7, 8, 40, 41)]
    hosts = {"one": web("one"), "two": web("two"), "client": (0, gets), "balancer": (0, [
        {"path": "haproxy", "args": f"-D -f {workdir}/haproxy.cfg"}])}
    done = run_experiment(experiment(hosts, stop="60 s"))
    said = [f.read_text().strip() for f in done.streams("client", "curl")]
    assert sorted(said[:4]) == ["one", "one", "two", "two"] and said[0] != said[1], said
    assert said[4:] == ["one", "one"], said


@pytest.mark.needs("mosquitto", "mosquitto_sub", "mosquitto_pub")
def test_mosquitto(run_experiment, workdir):
    (workdir / "mosquitto.conf").write_text("listener 1883\nallow_anonymous true\n")
    subscriber = (0, [{"path": "mosquitto_sub", "args": "-h broker -t news/# -C 3 -v", "start_time": "2 s"}])
    publish = [{"path": "mosquitto_pub", "args": f"-h broker -q 1 -t news/{n} -m number-{n}", "start_time": f"{3 + n} s"}
               for n in range(3)]
    hosts = {"broker": (0, [{"path": "mosquitto", "args": f"-d -c {workdir}/mosquitto.conf"}]),
             "one": subscriber, "two": subscriber, "publisher": (0, publish)}
    done = run_experiment(experiment(hosts, stop="20 s"))
    for name in ("one", "two"):
        assert done.text(name) == "news/0 number-0\nnews/1 number-1\nnews/2 number-2\n"


@pytest.mark.needs("memcached")
def test_memcached_over_the_network(run_experiment):
    talk = ("import socket; s = socket.create_connection(('cache', 11211)); f = s.makefile('rwb')\n"
            "f.write(b'set k 0 0 5\\r\\nhello\\r\\nget k\\r\\nincr k 1\\r\\nquit\\r\\n'); f.flush(); print(f.read().decode())")
    hosts = {"cache": (0, [{"path": "memcached", "args": "-u memcache -l 0.0.0.0 -d"}]),
             "client": (0, [{"path": "/usr/bin/python3", "args": ["-c", talk], "start_time": "2 s"}])}
    done = run_experiment(experiment(hosts, stop="10 s"))
    assert done.text("client").split("\n")[:4] == ["STORED\r", "VALUE k 0 5\r", "hello\r", "END\r"], done.text("client")
