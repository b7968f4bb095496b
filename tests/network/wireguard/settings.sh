r ip link add wg0 type wireguard
r ip link add wg0 type wireguard
ip link add dum type dummy
r ip -d link show wg0
r wg show wg0
r wg show
r wg show wg0 dump
r wg showconf wg0
r wg set wg0 listen-port 51820 fwmark 0x1234 private-key <(echo $A) 
r wg set wg0 peer $PB allowed-ips 10.0.0.2/32,192.168.5.7/16,2001:db8:9::1/48 endpoint 192.0.2.2:1234 persistent-keepalive 25
r wg set wg0 peer $PC preshared-key <(echo $PD) allowed-ips 10.0.0.3 endpoint [2001:db8::5]:4321
r wg set wg0 peer $PA allowed-ips 10.0.0.9
r wg set wg0 peer $PD
r wg show wg0
r wg show all dump
r wg showconf wg0
for what in public-key private-key listen-port fwmark peers preshared-keys endpoints allowed-ips latest-handshakes persistent-keepalive transfer; do r wg show wg0 $what; done
r wg set wg0 peer $PC allowed-ips 10.0.0.2/32
r wg show wg0 allowed-ips
r wg set wg0 peer $PC remove
r wg set wg0 peer $PC remove
r wg show wg0 peers
printf '[Peer]\nPublicKey = %s\nAllowedIPs = 10.9.0.0/24\n' $PC > /tmp/add.conf
r wg addconf wg0 /tmp/add.conf
r wg show wg0 allowed-ips
printf '[Interface]\nPrivateKey = %s\nListenPort = 4000\n[Peer]\nPublicKey = %s\nAllowedIPs = 10.9.0.0/24\nPersistentKeepalive = 7\n' $B $PC > /tmp/sync.conf
r wg syncconf wg0 /tmp/sync.conf
r wg showconf wg0
printf '[Interface]\nPrivateKey = %s\n' $A > /tmp/set.conf
r wg setconf wg0 /tmp/set.conf
r wg showconf wg0
r wg set wg0 peer $PB endpoint 192.0.2.2:1
r wg set wg0 private-key <(echo $B)
r wg show wg0 peers
r wg set wg0 private-key /dev/null
r wg showconf wg0
r wg show wg9
r wg show dum
r wg set wg9 listen-port 5
r ip link set wg0 type wireguard
r ip link set wg0 mtu 67
r ip link set wg0 mtu 9000
r ip link show wg0
r ip link set wg0 address 02:00:00:00:00:01
ip link set wg0 up; sleep 0.2
r ip link show wg0
ip link add wg1 type wireguard; wg set wg1 listen-port 4000
wg set wg0 listen-port 4000
r ip link set wg1 up
wg set wg1 listen-port 4001
r ip link set wg1 up
r wg set wg1 listen-port 4000
r wg show wg1 listen-port
python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: s.bind(("127.0.0.1", 4001))
except OSError as error: print(error)
s.bind(("", 4002))
import subprocess
print(subprocess.run(["wg", "set", "wg1", "listen-port", "4002"], capture_output=True, text=True).stderr)'
r wg show interfaces
ip addr add 10.0.0.1/24 dev wg0
r ip route show dev wg0
r ip addr show wg0
r ping -c 1 -W 1 10.0.0.77
wg set wg0 private-key <(echo $A) peer $PB allowed-ips 10.0.0.2/32
r ping -c 1 -W 1 10.0.0.2
r ip link del wg0
r wg show interfaces
