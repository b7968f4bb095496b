ip netns add far; ip link set w0 netns far
ip netns exec far sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6'
ip -n far addr add 10.0.0.9/24 dev w0; ip -n far link set w0 up; ip -n far link set lo up
ip -n far addr add 10.5.0.1/32 dev lo
ip link set v0 up; ip addr add 10.0.0.5/24 dev v0
sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
received() { grep -o '[0-9]* received'; }
cat > /run/frames.py <<'P'
# Sends frames on interfaces, and shows the interfaces at which each is seen.
import select, socket, struct, subprocess, time
own, far = bytes.fromhex("020000000000"), bytes.fromhex("020000000100")
names = ("i1", "i2", "v0", "w0")
def opened(name):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.bind((name, 0)); s.setblocking(False)
    return s
sockets = {name: opened(name) for name in names[:3]}
home = open("/proc/self/ns/net")
with open("/run/netns/far") as other:
    import ctypes
    libc = ctypes.CDLL(None)
    libc.setns(other.fileno(), 0); sockets["w0"] = opened("w0"); libc.setns(home.fileno(), 0)
def ip(text): return socket.inet_aton(text)
def datagram(src, dst):
    udp = struct.pack("!HHHH", 9, 9, 12, 0) + b"MARK"
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + ip(src) + ip(dst)
    total = sum(struct.unpack("!10H", head)); total = (total & 0xffff) + (total >> 16)
    return head[:10] + struct.pack("!H", 0xffff & ~((total & 0xffff) + (total >> 16))) + head[12:] + udp
def request(src, dst):
    return struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + own + ip(src) + bytes(6) + ip(dst) + b"MARK"
def show(what, name, to, source, kind, payload):
    for s in sockets.values():
        try:
            while True: s.recv(2000)
        except BlockingIOError: pass
    seen = []
    try: sockets[name].sendto(to + source + struct.pack("!H", kind) + payload, (name, kind))
    except OSError as error: seen.append(error.strerror)
    time.sleep(0.3)
    for at, s in sockets.items():
        try:
            while True:
                frame, address = s.recvfrom(2000)
                marked = frame[12:14] == b"\x08\x06" and b"MARK" in frame[40:] or frame[12:14] == b"\x08\0" and frame[23] == 17 and b"MARK" in frame[40:]
                # A frame on its way out is not shown to the socket that sends it.
                if marked and (at, address[2]) != (name, 4): seen.append(f"{at}:{address[2]}")
        except BlockingIOError: pass
    print(what, *sorted(seen), flush=True)
everyone = bytes([255] * 6)
show("to another", "i1", own, own, 0x800, datagram("10.0.0.1", "10.0.0.2"))
show("to the interface", "i1", own, own, 0x800, datagram("10.0.0.1", "10.0.0.5"))
show("to its own", "i1", own, own, 0x800, datagram("10.0.0.1", "10.0.0.77"))
show("to the far end", "i1", far, own, 0x800, datagram("10.0.0.1", "10.0.0.9"))
show("by the far end", "i1", far, own, 0x800, datagram("10.0.0.1", "10.0.0.2"))
show("request to all", "i1", everyone, own, 0x806, request("10.0.0.1", "10.0.0.78"))
show("datagram to all", "i2", everyone, own, 0x800, datagram("10.0.0.2", "10.0.0.255"))
show("from the far end", "w0", own, far, 0x800, datagram("10.0.0.9", "10.0.0.2"))
show("from it to the interface", "w0", own, far, 0x800, datagram("10.0.0.9", "10.0.0.5"))
show("from it to all", "w0", everyone, far, 0x800, datagram("10.0.0.9", "10.0.0.255"))
show("from it as of an own one", "w0", everyone, own, 0x800, datagram("10.0.0.1", "10.0.0.255"))
show("truncated", "w0", own, far, 0x800, datagram("10.0.0.9", "10.0.0.2")[:18] + b"\1")
P
for mode in "l2 bridge" "l2 private" "l2 vepa" "l3 bridge" "l3 private" "l3 vepa" "l3s bridge"; do
    echo "== $mode"
    for n in 1 2; do
        ip link add link v0 i$n type ipvlan mode $mode
        ip link set i$n up; ip addr add 10.0.0.$n/32 dev i$n
        ip route add 10.0.0.9 dev i$n table $n; ip route add 10.5.0.1 via 10.0.0.9 dev i$n table $n onlink; ip rule add from 10.0.0.$n table $n pref 10$n
        ip -n far route add 10.0.0.$n via 10.0.0.5
    done
    case $mode in
        l2*) for n in 1 2; do ip -n far route del 10.0.0.$n via 10.0.0.5; done;;
    esac
    sleep 0.1
    for n in 1 2; do
        ping -q -c 2 -i 0.2 -W 0.3 -I 10.0.0.$n 10.0.0.9 | received
        ip netns exec far ping -q -c 2 -i 0.2 -W 0.3 10.0.0.$n | received
    done
    ip route add 10.5.0.1 via 10.0.0.9 dev v0
    ping -q -c 1 -W 0.3 -I 10.0.0.1 10.5.0.1 | received
    ip route del 10.5.0.1 via 10.0.0.9 dev v0
    for network in "" "-n far"; do ip $network neigh show | cut -d' ' -f1-5 | sort; done
    python3 /run/frames.py
    for n in 1 2; do ip rule del pref 10$n; ip link del i$n; ip -n far route del 10.0.0.$n 2> /dev/null; done
    ip neigh flush all; ip -n far neigh flush all
done
