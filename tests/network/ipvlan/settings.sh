r ip link add link v0 i0 type ipvlan mode l2
r ip link add link v0 i1 address 02:00:00:00:04:01 type ipvlan mode l2 bridge
r ip -d link show type ipvlan
# The settings are those of all: the last one's mode, l3 without a word.
r ip link add link v0 i2 type ipvlan
r ip -d link show type ipvlan
r ip link add link v0 i3 type ipvlan mode l3s vepa
r ip link add link i0 i4 type ipvlan mode l2 private
r ip -d link show type ipvlan
r ip link set i0 type ipvlan mode l3s bridge
r ip -d link show i1
r ip link set i0 type ipvlan mode l2
r ip -d link show i1
r ip link set i1 type ipvlan vepa
r ip -d link show i0
r ip link set i1 type macvlan mode vepa
r ip link del i3; r ip link del i4
# Lower interfaces that are none, or taken.
r ip link add link lo i5 type ipvlan
r ip link add i5 type ipvlan
r ip link add link v0 m0 type macvlan mode bridge
r ip link add link i0 m0 type macvlan mode bridge
ip link add link w1 m1 type macvlan mode bridge
r ip link add link w1 i5 type ipvlan
r ip link add link m1 i5 type ipvlan mode l2
r ip link show i5 | grep -v ether
ip link del m1
ip link add br0 type bridge
r ip link set v0 master br0
r ip link set i0 master br0
ip link set v1 master br0
r ip link add link v1 i5 type ipvlan
r ip link add link br0 i5 type ipvlan mode l2
r ip link set i5 master br0
ip link del i5
# State, addresses and MTU.
r ip link set i0 up
r ip link show i0
ip link set v0 up; ip link set w0 up; settle
r ip link show i0
r ip link set i0 address 02:00:00:00:04:12
r ip link set v0 address 02:00:00:00:04:13
r ip link show i0
r ip link set v0 mtu 1400
r ip link show i1
r ip link set i1 mtu 1450
r ip link set i1 mtu 70000
r ip link show i1
r ip link add link v0 i6 mtu 9000 type ipvlan mode l2
r ip link show i6
r ip addr add 10.0.0.1/24 dev i0
r ip addr add 10.0.0.1/16 dev i1
r ip addr add 10.0.0.1/24 dev v0
r ip addr add 10.0.0.2/24 dev i1
r ip route show dev i0
r ip link set i0 type ipvlan mode l3
r ip link show i0
r ip link show i1
r ip link set i1 up
r ip link show i1
r ip link set i0 type ipvlan mode l2
r ip link show i0
r ip link show type ipvlan
r ip link del v0
r ip link show type ipvlan
