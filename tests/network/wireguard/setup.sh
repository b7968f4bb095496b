[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
ip link set lo up
A=CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICEE=; PA=wa+dIaPE39SbRnavKPTeroqhR7N6Qv63ahbVJVuESzc=
B=EBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEEE=; PB=sWUiXUksNGxPDbVMISQv/UtKnolEd6VJRQv2GQB3LVU=
PC=dfhkVpQSweJbJnqo0YV44lYn44WH6IG3QPxT3t2egB4=
PD=7QMX6hIZV5oe5LJKlRSmKMLvV7yiJbvsB69cL3Em/lg=
export WG_HIDE_KEYS=never WG_COLOR_MODE=never
r() { echo "\$ $*"; "$@" 2>&1 | clean; }
clean() {
    sed -E -e 's/^[0-9]+: //; s/ (min|max)mtu.*//; s/ promiscuity.*//; s/ qdisc [a-z_]+//; s/ addrgenmode.*//; s/ numtxqueues.*//; s/ +$//'
}
