"""The examples of Shadow's documentation, as its command would be given them: files beside the experiment, programs on PATH, a
template folder, arguments relative to where programs start. tgen is not packaged: tests/shadow/tgen does what they ask of it."""

import os
import re
import shutil

import pytest
import yaml
from conftest import ROOT, execute

SWITCH = {"graph": {"type": "1_gbit_switch"}}
HOME = ('graph [\n  node [\n    id 0\n    host_bandwidth_down "140 Mbit"\n    host_bandwidth_up "18 Mbit"\n  ]\n'
        '  edge [\n    source 0\n    target 0\n    latency "50 ms"\n    packet_loss 0.01\n  ]\n]\n')


@pytest.fixture
def shadow(belljar, workdir):
    """Runs shadow.yaml in its folder; gives what was said, and the folder of the hosts."""

    def run(experiment, *arguments, timeout=600):
        (workdir / "shadow.yaml").write_text(experiment if isinstance(experiment, str) else yaml.safe_dump(experiment, sort_keys=False))
        env = {**os.environ, "PATH": f"{ROOT / 'tests/shadow'}:{os.environ['PATH']}"}
        done = execute([belljar, "run", *arguments, "shadow.yaml"], timeout, cwd=workdir, env=env)
        assert done.status == 0, done
        return workdir / "shadow.data" / "hosts"

    return run


def graphml(actions, edges=()):
    """A graph of tgen's actions."""
    names = sorted({name for action in actions.values() for name in action})
    keys = "".join(f'<key attr.name="{name}" attr.type="string" for="node" id="d{n}" />' for n, name in enumerate(names))
    nodes = "".join(f'<node id="{node}">' + "".join(f'<data key="d{names.index(k)}">{v}</data>' for k, v in action.items()) + "</node>"
                    for node, action in actions.items())
    arrows = "".join(f'<edge source="{a}" target="{b}" />' for a, b in edges)
    return ('<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
            f'{keys}<graph edgedefault="directed">{nodes}{arrows}</graph></graphml>\n')


CIRCLE = (("start", "stream"), ("stream", "end"), ("end", "pause"), ("pause", "start"))


def tgen_client(peers, send, receive, count=10, **start):
    return graphml({"start": {"loglevel": "info", "peers": peers, **start}, "pause": {"time": "1,2,3"}, "end": {"count": count},
                    "stream": {"sendsize": send, "recvsize": receive}}, CIRCLE)


TGEN_SERVER = graphml({"start": {"loglevel": "info", "serverport": "8888"}})


def streams(hosts, name):
    said = "".join(file.read_text() for file in (hosts / name).glob("tgen.*.stdout"))
    return len(re.findall("stream-success", said)), said


@pytest.mark.needs("curl")
def test_basic_file_transfer(shadow):
    client = {"network_node_id": 0, "processes": [{"path": "curl", "args": "-s server", "start_time": "5s"}]}
    hosts = shadow({
        "general": {"stop_time": "10s", "model_unblocked_syscall_latency": True}, "network": SWITCH,
        "hosts": {"server": {"network_node_id": 0, "processes": [
            {"path": "python3", "args": "-m http.server 80", "start_time": "3s", "expected_final_state": "running"}]},
            **{f"client{n}": client for n in (1, 2, 3)}}})
    for n in (1, 2, 3):
        assert "Directory listing for /" in (hosts / f"client{n}" / "curl.1000.stdout").read_text()
    asked = (hosts / "server" / "python3.1000.stderr").read_text()
    assert len(re.findall(r'11\.0\.0\.[123] - - \[01/Jan/2000 00:00:0\d\] "GET / HTTP/1.1" 200', asked)) == 3, asked


@pytest.mark.needs("curl", "nginx")
def test_the_example_of_the_configuration_specification(shadow, workdir):
    (workdir / "nginx.conf").write_text(
        "daemon off; master_process off; error_log stderr; pid nginx.pid;\nevents {}\nhttp {\n  access_log access.log;\n  client_body_temp_path b;\n"
        "  proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n  server { listen 80; location / { return 200 'hello from nginx\\n'; } }\n}\n")
    hosts = shadow(f"""
general:
  stop_time: 2 min
network:
  graph:
    type: gml
    inline: |
{"".join("      " + line + chr(10) for line in HOME.splitlines())}
hosts:
  server:
    network_node_id: 0
    processes:
    - path: {shutil.which("nginx")}
      args: -c ../../../nginx.conf -p .
      start_time: 1
      expected_final_state: running
  client1: &client_host
    network_node_id: 0
    host_options:
      log_level: debug
    processes:
    - path: {shutil.which("curl")}
      args: server --silent
      start_time: 5
  client2: *client_host
  client3: *client_host
""")
    assert [(hosts / f"client{n}" / "curl.1000.stdout").read_text() for n in (1, 2, 3)] == ["hello from nginx\n"] * 3
    assert len((hosts / "server" / "access.log").read_text().splitlines()) == 3, "where nginx started"


@pytest.mark.parametrize("clients, size", [(2, "100 KiB"), pytest.param(5, "1 MiB", marks=pytest.mark.slow)])
def test_traffic_generation(shadow, workdir, clients, size):
    (workdir / "tgen.server.graphml.xml").write_text(TGEN_SERVER)
    (workdir / "tgen.client.graphml.xml").write_text(tgen_client("server:8888", size, size))
    client = {"network_node_id": 0, "processes": [{"path": "tgen", "args": "../../../tgen.client.graphml.xml", "start_time": "2s"}]}
    hosts = shadow({
        "general": {"stop_time": "10m", "model_unblocked_syscall_latency": True}, "network": {"graph": {"type": "gml", "inline": HOME}},
        "hosts": {"server": {"network_node_id": 0, "processes": [
            {"path": "tgen", "args": "../../../tgen.server.graphml.xml", "start_time": "1s", "expected_final_state": "running"}]},
            **{f"client{n}": client for n in range(1, clients + 1)}}}, timeout=900)
    for n in range(1, clients + 1):
        count, said = streams(hosts, f"client{n}")
        assert count == 10 and "driver-heartbeat] streams=10" in said and "stream-error" not in said, said
        # Both directions over 18 Mbit/s up, 50 ms away: no stream is faster than its bytes.
        took = [int(us) for us in re.findall(r"usecs=(\d+)", said)]
        assert min(took) > 200_000, took
    assert streams(hosts, "server")[0] == 10 * clients


COMMON = """
DataDirectory .
{authority}
TestingTorNetwork 1
ServerDNSTestAddresses 4uthority
ServerDNSAllowBrokenConfig 1
ServerDNSDetectHijacking 0
AssumeReachable 1
AuthDirTestReachability 0
NumCPUs 1
Log notice stdout
PathBiasUseThreshold 10000
PathBiasCircThreshold 10000
DoSCircuitCreationEnabled 0
DoSConnectionEnabled 0
LearnCircuitBuildTimeout 0
"""
CONF = {
    "authority": 'AuthoritativeDirectory 1\nV3AuthoritativeDirectory 1\nContactInfo nobody@auth.test\nExitPolicy "reject *:*"\n'
                 "TestingDirAuthVoteGuard *\nTestingDirAuthVoteExit *\nTestingMinExitFlagThreshold 0\n",
    "relay": "ORPort 9111 IPv4Only\nDirPort 9112\nSocksPort 0\n", "exit": 'ExitRelay 1\nExitPolicy "accept *:*"\nExitPolicyRejectPrivate 0\n',
    "client": "SocksPort 127.0.0.1:9050\n", "middle": 'ExitPolicy "reject *:*"\n',
}
ROLES = {"4uthority": ["relay", "authority"], **{f"exit{n}": ["relay", "exit"] for n in (1, 2)},
         **{f"relay{n}": ["relay", "middle"] for n in (1, 2, 3, 4)}, "torclient": ["client"]}


def authority_keys(belljar, workdir):
    """The folder of an authority's keys, and its line for everybody's configuration. They are made where it is 2000, so that
    certificates are valid then."""
    script = f"""
umask 077; mkdir keys
echo passphrase | tor-gencert --create-identity-key --passphrase-fd 0 -m 12 -a 100.0.0.1:9112 -i keys/authority_identity_key \\
  -s keys/authority_signing_key -c keys/authority_certificate || exit 1
tor -f /dev/null --ignore-missing-torrc --quiet --list-fingerprint --orport 9111 --dirauthority 'nobody 127.0.0.1:1 {'f' * 40}' \\
  --datadirectory $PWD --nickname 4uthority
"""
    made = {"general": {"stop_time": "1 min"}, "network": SWITCH, "hosts": {"keys": {"network_node_id": 0, "processes": [{"path": "sh", "args": ["-c", script]}]}}}
    (workdir / "keys.yaml").write_text(yaml.safe_dump(made))
    done = execute([belljar, "run", workdir / "keys.yaml", "-o", workdir / "keys.data"])
    assert done.status == 0, done
    folder = workdir / "keys.data/hosts/keys"
    identity = re.search(r"^fingerprint (\w+)", (folder / "keys/authority_certificate").read_text(), re.M)[1]
    said = next(folder.glob("sh.*.stdout")).read_text()
    fingerprint = re.search(r"^4uthority ([\w ]+)$", said, re.M)[1].replace(" ", "")
    return folder / "keys", f"DirAuthority 4uthority orport=9111 v3ident={identity} 100.0.0.1:9112 {fingerprint}"


@pytest.mark.slow
@pytest.mark.needs("tor", "tor-gencert")
def test_the_simple_tor_network(belljar, shadow, workdir):
    """An authority, six relays and a client by a template folder; ten transfers beside Tor and ten through it."""
    keys, line = authority_keys(belljar, workdir)
    conf = workdir / "conf"
    conf.mkdir()
    (conf / "tor.common.torrc").write_text(COMMON.format(authority=line))
    for name, text in CONF.items():
        (conf / f"tor.{name}.torrc").write_text(text)
    (conf / "tgen.server.graphml.xml").write_text(TGEN_SERVER)
    (conf / "tgen.client.graphml.xml").write_text(tgen_client("fileserver:8888", "1 KiB", "1 MiB"))
    (conf / "tgen.torclient.graphml.xml").write_text(tgen_client("fileserver:8888", "1 KiB", "1 MiB", socksproxy="localhost:9050"))
    template = workdir / "shadow.data.template" / "hosts"
    for name, roles in ROLES.items():
        (template / name).mkdir(parents=True)
        (template / name / "torrc").write_text("")
        (template / name / "torrc-defaults").write_text("".join(f"%include ../../../conf/tor.{part}.torrc\n" for part in ["common", *roles]))
    shutil.copytree(keys, template / "4uthority" / "keys")

    def tor(name, start):
        return {"path": "tor", "args": f"--Address {name} --Nickname {name} --defaults-torrc torrc-defaults -f torrc", "start_time": start,
                "expected_final_state": "running"}

    def tgen(conf, start, **more):
        return {"path": "tgen", "environment": {"OPENBLAS_NUM_THREADS": "1"}, "args": f"../../../conf/tgen.{conf}.graphml.xml", "start_time": start, **more}

    hosts = {"fileserver": [tgen("server", 1, expected_final_state="running")], "4uthority": [tor("4uthority", 1)],
             **{name: [tor(name, 60)] for name in ROLES if name not in ("4uthority", "torclient")},
             "client": [tgen("client", 600)], "torclient": [tor("torclient", 900), tgen("torclient", 1500)]}
    gml = 'graph [ directed 0 node [ id 0 host_bandwidth_down "1 Gbit" host_bandwidth_up "1 Gbit" ] edge [ source 0 target 0 latency "50 ms" jitter "0 ms" packet_loss 0.0 ] ]'
    made = {name: {"network_node_id": 0, "processes": processes} for name, processes in hosts.items()}
    made["4uthority"]["ip_addr"] = "100.0.0.1"
    folder = shadow({"general": {"stop_time": "30 min"}, "network": {"graph": {"type": "gml", "inline": gml}}, "hosts": made},
                    "--template-directory", "shadow.data.template", timeout=900)
    bootstrapped = [name for name in ROLES if any("Bootstrapped 100" in f.read_text() for f in (folder / name).glob("tor.*.stdout"))]
    assert sorted(bootstrapped) == sorted(ROLES)
    assert [streams(folder, name)[0] for name in ("client", "torclient", "fileserver")] == [10, 10, 20], streams(folder, "torclient")[1]
