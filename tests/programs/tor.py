"""A whole Tor network: three directory authorities, eight relays, an onion service and a client."""

import datetime
import pathlib
import re
import subprocess

AUTHORITIES = {f"auth{n}": f"11.1.0.{n}" for n in (1, 2, 3)}
RELAYS = {f"relay{n}": f"11.1.1.{n}" for n in range(1, 9)}
DATA = "/var/lib/tor-test"

COMMON = """
TestingTorNetwork 1
DataDirectory {data}
AssumeReachable 1
PathsNeededToBuildCircuits 0.67
TestingDirAuthVoteExit *
TestingDirAuthVoteHSDir *
TestingDirAuthVoteGuard *
V3AuthNIntervalsValid 2
Log notice stdout
"""
AUTHORITY = """
AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
ContactInfo nobody@auth.test
DirPort 80
TestingMinExitFlagThreshold 0
V3AuthVotingInterval 20
V3AuthVoteDelay 4
V3AuthDistDelay 4
TestingV3AuthInitialVotingInterval 20
TestingV3AuthInitialVoteDelay 4
TestingV3AuthInitialDistDelay 4
"""
RELAY = """
Nickname {name}
Address {address}
ORPort 9001
SocksPort 0
ExitRelay 1
ExitPolicy accept *:*
ExitPolicyRejectPrivate 0
ServerDNSDetectHijacking 0
ServerDNSTestAddresses
"""
ONION = f"""
SocksPort 0
HiddenServiceDir {DATA}/onion
HiddenServicePort 80 127.0.0.1:80
"""


def authority_keys(folder, name, address):
    """The keys of an authority, made natively; gives its line for everybody's configuration."""
    data = folder / name
    keys = data / "keys"
    keys.mkdir(parents=True)
    data.chmod(0o700)
    certificate = keys / "authority_certificate"
    subprocess.run(
        ["tor-gencert", "--create-identity-key", "--passphrase-fd", "0", "-m", "12", "-a", f"{address}:80", "-i", keys / "authority_identity_key",
         "-s", keys / "authority_signing_key", "-c", certificate],
        input=b"passphrase\n", check=True, capture_output=True)
    identity = re.search(r"^fingerprint (\w+)", certificate.read_text(), re.M)[1]
    nobody = f"nobody 127.0.0.1:1 {'f' * 40}"
    shown = subprocess.run(
        ["tor", "-f", "/dev/null", "--ignore-missing-torrc", "--quiet", "--list-fingerprint", "--orport", "9001", "--dirauthority", nobody,
         "--datadirectory", data, "--nickname", name],
        check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    fingerprint = re.search(rf"^{name} ([\w ]+)$", shown, re.M)[1].replace(" ", "")
    return f"DirAuthority {name} orport=9001 v3ident={identity} {address}:80 {fingerprint}\n"


def experiment(folder):
    lines = "".join(authority_keys(folder, name, address) for name, address in AUTHORITIES.items())
    common = COMMON.format(data=DATA) + lines

    def host(processes, address=None):
        made = {"network_node_id": 0, "processes": processes}
        return made | ({"ip_addr": address} if address else {})

    def tor(name, text, before="true"):
        conf = folder / f"{name}.torrc"
        conf.write_text(common + text)
        script = f"{before} && mkdir -p -m 700 {DATA} && exec tor -f {conf}"
        return {"path": "sh", "args": ["-c", script], "expected_final_state": "running"}

    hosts = {}
    for name, address in AUTHORITIES.items():
        keys = f"cp -r {folder / name} {DATA}"
        hosts[name] = host([tor(name, RELAY.format(name=name, address=address) + AUTHORITY, keys)], address)
    for name, address in RELAYS.items():
        hosts[name] = host([tor(name, RELAY.format(name=name, address=address))], address)
    serve = {"path": "/usr/bin/python3", "args": "-m http.server -d /usr/share/common-licenses 80", "expected_final_state": "running"}
    tell = {"path": "/usr/bin/python3", "args": f"-m http.server -d {DATA}/onion 8080", "start_time": "20 s", "expected_final_state": "running"}
    hosts["web"] = host([serve], "11.1.2.1")
    hosts["onion"] = host([tor("onion", ONION), serve, tell])
    fetch = ("get() { until curl -sS --socks5-hostname 127.0.0.1:9050 -o $1 $2; do sleep 5; done; }\n"
             "get over-exit http://11.1.2.1/GPL-3\nget over-onion http://$(curl -sS http://onion:8080/hostname)/GPL-3\n")
    hosts["client"] = host([tor("client", "SocksPort 9050\n"), {"path": "sh", "args": ["-c", fetch], "start_time": "60 s"}])
    gml = ('graph [\n directed 0\n node [ id 0 host_bandwidth_up "100 Mbit" host_bandwidth_down "100 Mbit" ]\n'
           ' edge [ source 0 target 0 latency "20 ms" ]\n]\n')
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    return {"general": {"stop_time": "300 s"}, "network": {"graph": {"type": "gml", "inline": gml}}, "hosts": hosts,
            "belljar": {"start_date": now.strftime("%Y-%m-%dT%H:%M:%SZ")}}


def check(done):
    license = pathlib.Path("/usr/share/common-licenses/GPL-3").read_bytes()
    said = done.streams("client", "sh")[0].read_text()
    for name in ("over-exit", "over-onion"):
        file = done.host("client") / name
        assert file.exists() and file.read_bytes() == license, f"{name} has not come through\n{said[-3000:]}{done}"
    assert "Bootstrapped 100%" in said, said[-3000:]
