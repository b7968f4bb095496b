mount -t tmpfs tmpfs /run 2>/dev/null
on() { ip netns exec n$1 "${@:2}"; }
ip netns add n2; on 2 ip link set lo up
ip link add e1 type veth peer name e2 netns n2
ip addr add 192.0.2.1/24 dev e1; ip link set e1 up
on 2 ip addr add 192.0.2.2/24 dev e2; on 2 ip link set e2 up; on 2 ip addr add 198.51.100.1/32 dev lo
on 2 ip link add wg0 type wireguard; on 2 ip addr add 10.0.0.2/24 dev wg0; on 2 ip addr add 2001:db8:1::2/64 dev wg0 nodad
on 2 wg set wg0 listen-port 1002 private-key <(echo $B) peer $PA allowed-ips 10.0.0.1/32,2001:db8:1::1/128
on 2 ip link set wg0 up
ip route add default via 192.0.2.2
mkdir -p /etc/wireguard; umask 077
cat > /etc/wireguard/wg0.conf <<X
[Interface]
Address = 10.0.0.1/24, 2001:db8:1::1/64
PrivateKey = $A
PostUp = echo up %i
PreDown = echo down %i
[Peer]
PublicKey = $PB
AllowedIPs = 0.0.0.0/0, ::/0
Endpoint = 192.0.2.2:1002
PersistentKeepalive = 20
X
r wg-quick up wg0
r ip rule
r ip -6 rule
r ip route show table 51820
r ip -6 route show table 51820
r ip route get 198.51.100.1
r ip route get 198.51.100.1 mark 51820
r sysctl net.ipv4.conf.all.src_valid_mark
r nft list ruleset
r ip addr show wg0
r wg show wg0 fwmark
ping -q -c 2 -i 0.2 198.51.100.1 | grep -o '[0-9]* received'
ping -q -c 2 -i 0.2 2001:db8:1::2 | grep -o '[0-9]* received'
on 2 ping -q -c 2 -i 0.2 10.0.0.1 | grep -o '[0-9]* received'
on 2 wg show wg0 transfer | cut -f2-
r wg-quick up wg0
r wg-quick strip wg0
r wg-quick save wg0
cat /etc/wireguard/wg0.conf
r wg-quick down wg0
r ip rule
r ip route
r nft list ruleset
r wg-quick down wg0
