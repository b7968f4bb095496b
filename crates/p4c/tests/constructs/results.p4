// hit, miss and action_run: as conditions, in a switch, with fall-through.
#include "two.inc"

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action red() {}
    action green() {}
    action blue() {}
    table t { key = { hdr.x.a: exact; } actions = { red; NoAction; } default_action = NoAction(); }
    table u { key = { hdr.x.a: exact; } actions = { red; @defaultonly NoAction; } const default_action = NoAction(); }
    table v { key = { hdr.x.b: exact; } actions = { red; } }
    table w { key = { hdr.x.b: exact; } actions = { red; green; blue; NoAction; } default_action = NoAction; }
    table s { key = { hdr.x.b: exact; } actions = { red; green; } default_action = green(); size = 16; }
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        if (t.apply().hit) {
            hdr.y.r0 = 1;
        } else {
            hdr.y.r0 = 2;
        }
        if (!u.apply().hit) {
            hdr.y.r1 = 1;
        }
        bool missed = v.apply().miss;
        hdr.y.r2 = missed ? 8w1 : 0;
        switch (w.apply().action_run) {
            red:
            green: { hdr.y.r3 = 0x10; }
            blue: { hdr.y.r3 = 0x20; }
            default: { hdr.y.r3 = 0x30; }
        }
        switch (s.apply().action_run) {
            red: { hdr.y.r4 = 1; }
        }
    }
}

#include "rest.inc"
