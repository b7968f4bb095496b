"""Programs that find and speak to their like: file sharing, overlay networks, routing; and tools that measure and look."""

import pathlib
import random
import re
import subprocess

import yaml

from .cases import GPL, LICENSES, answers, at, case, over_links, same_license, shell, stays, written

PYTHON = "/usr/bin/python3"
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def tells(script, file, port=8000):
    """Runs what writes `file`, and tells whoever asks for it by HTTP."""
    return f"mkdir -p tell; {script} > tell/{file}; {PYTHON} -m http.server -d tell {port} >/dev/null 2>&1 & "


def asks(host, file, port=8000):
    return f"until curl -sf -o {file}.{host} http://{host}:{port}/{file}; do sleep 1; done; "


@case("Syncthing", "syncthing curl", "syncthing curl", "syncthing --version",
      "two hosts that know each other's device id: found by local discovery, a folder in sync both ways",
      note="on hosts whose clock takes 2 ms to be read: its start measures how much it hashes in half a second, and computation is free")
def syncthing():
    def hosts(folder):
        def host(other, early, late):
            run = (f"syncthing generate; mkdir -p ~/Sync; {early}; syncthing serve --no-browser > log 2>&1 & sleep 10; "
                   + tells("syncthing --device-id", "id") + asks(other, "id") +
                   f"id=$(cat id.{other}); syncthing cli config devices add --device-id $id; "
                   f"syncthing cli config folders default devices add --device-id $id; sleep 100; {late}; sleep 60; cat ~/Sync/new; wait")
            return {"processes": [shell(0, run, expected_final_state="running")]}

        made = {"one": host("two", f"cp {GPL} ~/Sync", "true"), "two": host("one", "true", "sha256sum < ~/Sync/GPL-3; echo back > ~/Sync/new")}
        # It measures how much it hashes in half a second, and asks for the time after each 16 MiB: that takes its time here, too.
        cpu = {"general": {"stop_time": "240 s", "model_unblocked_syscall_latency": True}, "experimental": {"unblocked_vdso_latency": "2 ms"}}
        return over_links(made, made) | cpu

    def check(done):
        shared = done.host("two") / "fs/root/Sync"
        same_license((shared / "GPL-3").read_bytes())
        assert (done.host("one") / "fs/root/Sync/new").read_text() == "back\n", str(done)

    return hosts, check


@case("i2pd", "i2pd curl", "i2pd curl", "dpkg-query -W -f ${Version} i2pd",
      "three routers of an I2P network of their own, one known to the others: each comes to know all, by NTCP2 and SSU2", stop="150 s")
def i2pd():
    settings = """netid = 99
floodfill = true
reservedrange = false
port = 17654
[reseed]
threshold = 0
urls =
yggurls =
"""

    def hosts(folder):
        conf = written(folder, "i2pd.conf", settings)
        run = f"i2pd --conf={conf} --host=$(hostname -i)"
        look = "curl -sS -o main http://127.0.0.1:7070/; curl -sS -o transports 'http://127.0.0.1:7070/?page=transports'"

        def host(before):
            router = shell(0, f"mkdir -p ~/.i2pd/netDb/rA; {before} {run}", expected_final_state="running")
            return 0, [router, shell(140, look)]

        # Otherwise they would ask the known servers of the real network for routers.
        known = "sleep 20; " + asks("one", "router.info") + "cp router.info.one ~/.i2pd/netDb/rA/routerInfo-one.dat;"
        made = {name: host(known) for name in ("two", "three")} | {"one": host("")}
        tell = shell(10, f"exec {PYTHON} -m http.server -d ~/.i2pd 8000", expected_final_state="running")
        made["one"][1].append(tell)
        return made

    def check(done):
        for name in ("one", "two", "three"):
            main, transports = ((done.host(name) / page).read_text() for page in ("main", "transports"))
            assert re.search(r"Routers:</b>\s*3\b", main), main + str(done)
            assert "SSU2" in transports or "NTCP2" in transports, transports + str(done)

    return hosts, check


@case("Yggdrasil", "yggdrasil yggdrasilctl curl ping", "yggdrasil curl iputils-ping", "dpkg-query -W -f ${Version} yggdrasil",
      "as it configures itself: three hosts find each other by multicast; ping and curl over its addresses", stop="60 s")
def yggdrasil():
    def hosts(folder):
        def host(second, *processes):
            # One after the other: two that meet at the same nanosecond refuse each other's connections.
            start = "mkdir -p /run/yggdrasil; yggdrasil -genconf > /etc/yggdrasil.conf; exec yggdrasil -useconffile /etc/yggdrasil.conf"
            return {"processes": [shell(second, start, expected_final_state="running"), *processes]}

        tell = tells("yggdrasil -useconffile /etc/yggdrasil.conf -address", "address") + \
            f"{PYTHON} -m http.server --bind :: -d {LICENSES} 80 & wait"
        use = asks("server", "address") + "a=$(cat address.server); ping -c 3 $a; curl -sS -o got http://[$a]/GPL-3; yggdrasilctl getPeers"
        made = {"server": host(0, shell(5, tell, expected_final_state="running")), "other": host(0.3), "client": host(0.7, shell(20, use))}
        return over_links(made, made, "60 s") | {"belljar": {"ipv6": True}}

    def check(done):
        said = done.streams("client", "sh")[-1].read_text()
        assert "3 received, 0% packet loss" in said, said + str(done)
        same_license((done.host("client") / "got").read_bytes())

    return hosts, check


@case("wireguard-go", "wireguard-go wg ip curl ping", "wireguard-go wireguard-tools iproute2 curl", "wireguard-go --version",
      "WireGuard over TUN between two hosts, set up by wg and ip; ping and curl through the tunnel, wg show")
def wireguard():
    def hosts(folder):
        def host(own, other, peer, then):
            run = ("mkdir -p tell; wg genkey > key; " + tells("wg pubkey < key", "public") + asks(peer, "public") +
                   "wireguard-go wg0; "
                   f"wg set wg0 listen-port 51820 private-key key peer $(cat public.{peer}) allowed-ips {other}/32 endpoint {peer}:51820; "
                   f"ip address add {own}/24 dev wg0; ip link set wg0 up; {then}")
            return {"processes": [shell(0, run, expected_final_state="any")]}

        serve = f"exec {PYTHON} -m http.server --bind 10.9.0.1 -d {LICENSES} 80"
        use = "sleep 5; ping -c 3 10.9.0.1; curl -sS -o got http://10.9.0.1/GPL-3; wg show"
        made = {"one": host("10.9.0.1", "10.9.0.2", "two", serve), "two": host("10.9.0.2", "10.9.0.1", "one", use)}
        return over_links(made, made, "30 s")

    def check(done):
        said = done.streams("two", "sh")[0].read_text()
        assert "3 received, 0% packet loss" in said and "latest handshake:" in said, said + str(done)
        same_license((done.host("two") / "got").read_bytes())

    return hosts, check


@case("BitTorrent", "transmission-daemon transmission-create transmission-remote aria2c opentracker",
      "transmission-daemon transmission-cli opentracker aria2", "transmission-daemon --version",
      "opentracker with its configuration and one torrent allowed, a seeder and four leechers (three transmission-daemon, one aria2) that all get 8 MiB", stop="120 s")
def bittorrent():
    def content():
        return random.Random(7).randbytes(8 << 20)

    def hosts(folder):
        data = folder / "data"
        data.write_bytes(content())
        torrent = folder / "data.torrent"
        subprocess.run(["transmission-create", "-o", torrent, "-s", "256", "-t", "http://tracker:6969/announce", data], check=True, capture_output=True)

        def transmission(second, before):
            run = f"mkdir -p ~/Downloads; {before}; transmission-daemon; sleep 3; transmission-remote -a {torrent}"
            return [shell(second, run), at(110, "transmission-remote", "-l")]

        leech = transmission(10, "true")
        aria2 = stays("aria2c", ["--seed-ratio=0", "--file-allocation=none", "-d", ".", str(torrent)]) | {"start_time": "40 s"}
        shown = subprocess.run(["transmission-show", torrent], check=True, capture_output=True, text=True).stdout
        allow = f"echo {re.search('Hash: (.*)', shown)[1]} > /etc/opentracker/whitelist.txt"
        tracker = stays("opentracker", "-f /etc/opentracker/opentracker.conf") | {"user": "_opentracker", "start_time": "1 s"}
        made = {"tracker": [shell(0, allow), tracker], "seeder": transmission(2, f"cp {data} ~/Downloads"),
                "l1": leech, "l2": leech, "l3": leech, "l4": [aria2]}
        return {name: (0, processes) for name, processes in made.items()}

    def check(done):
        for name in ("l1", "l2", "l3"):
            got = done.host(name) / "fs/root/Downloads/data"
            assert got.exists() and got.read_bytes() == content(), f"{name}\n{done.text(name, 'transmission-remote')}{done}"
        assert (done.host("l4") / "data").read_bytes() == content(), done.text("l4") + str(done)

    return hosts, check


@case("iperf2", "iperf", "iperf", "iperf --version", "TCP and UDP between two hosts, two streams at once, 2 s each")
def iperf2():
    def hosts(folder):
        run = "iperf -c server -t 2 -P 2; iperf -c server -u -b 20M -t 2 -p 5002"
        return {"server": (0, [stays("iperf", "-s"), stays("iperf", "-s -u -p 5002")]), "client": (0, [shell(2, run)])}

    def check(done):
        said = done.text("client")
        assert re.search(r"\[SUM\].* bits/sec|\[SUM\].*bits/sec", said) and re.search(r"ms +0/\s*\d+ \(0%\)", said), said + str(done)

    return hosts, check


@case("iproute2", "ip ss", "iproute2", "ip -V", "addresses, routes and neighbours shown and changed; ss by sock_diag with listening and connected sockets")
def iproute2():
    def hosts(folder):
        run = ("ip -br address show eth0; ip address add 10.5.0.1/24 dev eth0; ip route add 10.6.0.0/16 via 10.5.0.9; ip route get 10.6.1.1; "
               "curl -s -o /dev/null http://server; ip neighbour; "
               f"{PYTHON} -c 'import socket, time; s = socket.create_connection((\"server\", 80)); time.sleep(5)' & sleep 1; "
               "ss -tnp state established; ss -tlnp; ss -s | head -1; wait")
        made = {"server": {"processes": [stays(PYTHON, "-m http.server 80")]}, "client": {"processes": [shell(2, run)]}}
        return over_links(made, made, "20 s")

    def check(done):
        said = done.streams("client", "sh")[0].read_text()
        for expected in (r"eth0 +UP +10\.0\.0\.2/24", r"10\.6\.1\.1 via 10\.5\.0\.9 dev eth0 src 10\.5\.0\.1", r"10\.0\.0\.1 dev eth0 lladdr \S+ REACHABLE", r'10\.0\.0\.2:\d+ +10\.0\.0\.1:80 +users:\(\("python3",pid=\d+,fd=3\)\)'):
            assert re.search(expected, said), (expected, said, str(done))

    return hosts, check


@case("FRRouting", "vtysh bird ping traceroute", "frr bird2 iputils-ping traceroute", "dpkg-query -W -f ${Version} frr",
      "examples/routing.yaml: OSPF and BGP with BIRD over seven links, two of which fail", stop="90 s")
def frr():
    def hosts(folder):
        return yaml.safe_load((EXAMPLES / "routing.yaml").read_text())

    def check(done):
        ways = [re.findall(r"^ ?\d+  ([\d.]+)", file.read_text(), re.M) for file in done.streams("alice", "traceroute")]
        assert [way[1:3] for way in ways] == [["10.0.12.2", "192.168.2.2"], ["10.0.13.3", "192.168.2.2"], ["10.0.13.3", "192.168.3.2"]], ways
        assert "B>* 172.16.0.0/24" in done.text("r3", "vtysh") and "*> 172.16.0.0/24" in done.text("x", "vtysh"), str(done)

    return hosts, check
