r ip link add bond0 type bond
ip link set bond0 address 02:00:00:00:02:00
r ip -d link show bond0
r cat /proc/net/bonding/bond0
r ip link add bond0 type bond
r ip link set bond0 type bond mode active-backup miimon 50 updelay 100 downdelay 200
r ip -d link show bond0
r ip link set bond0 type bond updelay 120
r ip -d link show bond0
r ip link set bond0 type bond mode 9
r ip link set bond0 type bond mode balance-xor xmit_hash_policy layer3+4
r ip -d link show bond0
r ip link set bond0 type bond xmit_hash_policy layer2+3 mode active-backup num_grat_arp 3 primary_reselect better
r ip -d link show bond0
r ip link set bond0 type bond primary v2
r ip link del bond0
# Delays without an interval.
r ip link add bond0 address 02:00:00:00:02:00 type bond updelay 100
r ip link add bond0 address 02:00:00:00:02:00 type bond mode active-backup updelay 100
r ip link del bond0
r ip link add bond0 type bond mode active-backup miimon 50
r ip link show bond0 | grep -v ether
# Ports.
ip link set v0 up
r ip link set v0 master bond0
ip link set v0 down
r ip link set lo master bond0
r ip link set bond0 master bond0
ip link set v0 mtu 1400
r ip link set v0 master bond0
r ip -d link show v0
r ip -d link show bond0
r ip link set bond0 type bond mode balance-rr
r ip link set v1 master bond0
r ip -d link show v1
r ip link set v0 master bond0
r cat /proc/net/bonding/bond0
r ip link set w0 up; r ip link set w1 up; r ip link set bond0 up
settle
r ip link show bond0
r ip -d link show v0
r ip -d link show v1
r ip -d link show bond0
r ip link set bond0 mtu 1300
r ip link show v1
r ip link set bond0 address 02:00:00:00:02:05
r ip link show v0
r ip link show v1
r cat /proc/net/bonding/bond0
r ip link set bond0 type bond active_slave v1
r ip -d link show bond0
r ip link set bond0 type bond active_slave v2
r ip link set bond0 type bond primary v0
settle
r ip -d link show bond0
ip link add br0 type bridge
r ip link set v0 master br0
r ip link show v0
r ip link set v1 nomaster
r ip link show v1
r ip link set bond0 master br0
r ip link set v2 master bond0
r ip link show master bond0
r ip link add link v2 m0 type macvlan mode bridge
r ip link del v2
r ip link show master bond0
r cat /proc/net/bonding/bond0
r ip link del bond0
r cat /proc/net/bonding/bond0
