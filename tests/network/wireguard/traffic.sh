mount -t tmpfs tmpfs /run 2>/dev/null
on() { ip netns exec n$1 "${@:2}"; }
for n in 1 2; do ip netns add n$n; on $n ip link set lo up; done
ip link add e1 netns n1 type veth peer name e2 netns n2
for n in 1 2; do
    on $n ip addr add 192.0.2.$n/24 dev e$n; on $n ip addr add 2001:db8::$n/64 dev e$n nodad; on $n ip link set e$n up
    on $n ip link add wg0 type wireguard; on $n ip addr add 10.0.0.$n/24 dev wg0; on $n ip addr add 2001:db8:1::$n/64 dev wg0 nodad
done
on 1 wg set wg0 listen-port 1001 private-key <(echo $A) peer $PB allowed-ips 10.0.0.2/32,2001:db8:1::2/128 endpoint 192.0.2.2:1002
on 2 wg set wg0 listen-port 1002 private-key <(echo $B) peer $PA allowed-ips 10.0.0.1/32,2001:db8:1::1/128
for n in 1 2; do on $n ip link set wg0 up; done
sleep 1.5
transfer() { for n in 1 2; do on $n wg show wg0 transfer | cut -f2-; on $n ip -s link show wg0 | awk 'NR == 4 || NR == 6 {print $1, $2}'; done; }
r on 2 ping -c 1 -W 1 10.0.0.1
on 1 ping -q -c 3 -i 0.2 10.0.0.2 | grep -o '[0-9]* received'
transfer
on 2 wg show wg0 endpoints | cut -f2
on 1 ping -q -c 2 -s 1392 -M do 10.0.0.2 | grep -o '[0-9]* received'
on 1 ping -q -c 1 -s 1393 -M do 10.0.0.2 | grep -o '[0-9]* received'
on 1 ping -q -c 1 -s 5000 10.0.0.2 | grep -o '[0-9]* received'
on 1 ping -q -c 2 -i 0.2 2001:db8:1::2 | grep -o '[0-9]* received'
transfer
on 1 wg set wg0 peer $PB endpoint [2001:db8::2]:1002
on 1 ping -q -c 2 -i 0.2 10.0.0.2 | grep -o '[0-9]* received'
on 2 wg show wg0 endpoints | cut -f2
# The peer moves to another port.
on 1 wg set wg0 listen-port 1111
on 1 ping -q -c 1 10.0.0.2 | grep -o '[0-9]* received'
on 2 wg show wg0 endpoints | cut -f2
# A source that is not the peer's.
on 1 ip addr add 10.0.0.11/24 dev wg0
on 1 ping -q -c 1 -W 0.5 -I 10.0.0.11 10.0.0.2 | grep -o '[0-9]* received'
transfer
# Another preshared key ends the next handshake.
on 1 wg set wg0 peer $PB preshared-key <(echo $PD)
on 1 ip link set wg0 down; on 1 ip link set wg0 up
on 1 ping -q -c 1 -W 0.5 10.0.0.2 | grep -o '[0-9]* received'
on 2 wg set wg0 peer $PA preshared-key <(echo $PD)
sleep 6
on 1 ping -q -c 1 -W 0.5 10.0.0.2 | grep -o '[0-9]* received'
transfer
