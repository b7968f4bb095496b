/* RTL as a simulator: a Verilog module with AXI-stream ports, made C++ by Verilator, beside Belljar. A program for one is
 *
 *     #include "Vswitch.h"
 *     #include "belljar_rtl.h"
 *     int main(int argc, char **argv) { return bjc_rtl_main<Vswitch, 4>(argc, argv); }
 *
 * and rtl/Makefile builds it. The module has a clock, a reset and N ports with a bus of 64 bits in either direction, one next to the other:
 *
 *     input  wire            clk, rst,
 *     input  wire [N*64-1:0] rx_tdata,  input  wire [N*8-1:0] rx_tkeep,  input  wire [N-1:0] rx_tvalid, rx_tlast,  output wire [N-1:0] rx_tready,
 *     output wire [N*64-1:0] tx_tdata,  output wire [N*8-1:0] tx_tkeep,  output wire [N-1:0] tx_tvalid, tx_tlast,  input  wire [N-1:0] tx_tready
 *
 * A frame that arrives at a channel is offered at its port, one beat in each cycle in which the module is ready; a frame that the module
 * sends leaves with its last beat. The clock runs in simulated time, 6.4 ns a cycle unless --clock says otherwise. */
#ifndef BELLJAR_RTL_H
#define BELLJAR_RTL_H

#include "belljar_channel.h"
#include <deque>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>
#include <verilated.h>
#if VM_TRACE
#include <verilated_vcd_c.h>
#endif

/* Bits of a signal, which is a number or an array of words of 32 bits. */
template <class Signal> uint64_t bjc_rtl_get(const Signal &signal, unsigned at, unsigned width) {
    if constexpr (std::is_integral_v<Signal>) {
        return (uint64_t)signal >> at & (width == 64 ? ~UINT64_C(0) : (UINT64_C(1) << width) - 1);
    } else {
        uint64_t value = 0;
        for (unsigned n = 0; n < width; n++)
            value |= (uint64_t)(signal[(at + n) / 32] >> (at + n) % 32 & 1) << n;
        return value;
    }
}

template <class Signal> void bjc_rtl_set(Signal &signal, unsigned at, unsigned width, uint64_t value) {
    if constexpr (std::is_integral_v<Signal>) {
        uint64_t mask = (width == 64 ? ~UINT64_C(0) : (UINT64_C(1) << width) - 1) << at;
        signal = (Signal)(((uint64_t)signal & ~mask) | (value << at & mask));
    } else {
        for (unsigned n = 0; n < width; n++) {
            auto &word = signal[(at + n) / 32];
            uint32_t bit = UINT32_C(1) << (at + n) % 32;
            word = value >> n & 1 ? word | bit : word & ~bit;
        }
    }
}

template <class Module, unsigned PORTS> struct bjc_rtl {
    struct port {
        struct bjc_channel *channel;
        bjc_rtl *rtl;
        std::deque<std::vector<uint8_t>> waiting;
        size_t offered = 0;
        std::vector<uint8_t> sending;
        uint64_t received = 0, sent = 0;
    };
    struct bjc_sim *sim = bjc_new();
    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Module> top;
    port ports[PORTS];
    uint64_t period = 6400, cycles = 0, idle = 0, sleep = 0;
    bool sleeping = false;
#if VM_TRACE
    std::unique_ptr<VerilatedVcdC> trace;
#endif

    static void arrived(struct bjc_channel *channel, const uint8_t *frame, size_t length) {
        port *to = (port *)channel->user;
        if (!length)
            return;
        to->waiting.emplace_back(frame, frame + length);
        to->received++;
        if (to->rtl->sleeping) {
            /* At the next edge of the clock as if it had gone on. */
            uint64_t now = bjc_now(channel->sim), period = to->rtl->period;
            to->rtl->sleeping = false;
            bjc_at(channel->sim, (now + period - 1) / period * period, cycle, to->rtl);
        }
    }

    void dump(uint64_t at) {
        (void)at;
#if VM_TRACE
        if (trace)
            trace->dump(at);
#endif
    }

    /* One cycle: what is offered is set up, both sides look at the rising edge, frames that are complete leave. */
    static void cycle(struct bjc_sim *sim, void *argument) {
        bjc_rtl *rtl = (bjc_rtl *)argument;
        Module &top = *rtl->top;
        uint64_t now = bjc_now(sim);
        bool busy = top.rst;
        for (unsigned n = 0; n < PORTS; n++) {
            port &port = rtl->ports[n];
            bool valid = !port.waiting.empty();
            uint64_t data = 0, keep = 0;
            bool last = false;
            if (valid) {
                const std::vector<uint8_t> &frame = port.waiting.front();
                size_t left = frame.size() - port.offered, count = left < 8 ? left : 8;
                memcpy(&data, frame.data() + port.offered, count);
                keep = (UINT64_C(1) << count) - 1;
                last = left <= 8;
            }
            busy |= valid;
            bjc_rtl_set(top.rx_tdata, 64 * n, 64, data);
            bjc_rtl_set(top.rx_tkeep, 8 * n, 8, keep);
            bjc_rtl_set(top.rx_tvalid, n, 1, valid);
            bjc_rtl_set(top.rx_tlast, n, 1, last);
            bjc_rtl_set(top.tx_tready, n, 1, 1);
        }
        top.clk = 0;
        top.rst = rtl->cycles < 4;
        top.eval();
        rtl->dump(now);
        /* What both sides see at the edge. */
        for (unsigned n = 0; n < PORTS && !top.rst; n++) {
            port &port = rtl->ports[n];
            if (bjc_rtl_get(top.rx_tvalid, n, 1) && bjc_rtl_get(top.rx_tready, n, 1)) {
                port.offered += 8;
                if (port.offered >= port.waiting.front().size()) {
                    port.waiting.pop_front();
                    port.offered = 0;
                }
            }
            if (bjc_rtl_get(top.tx_tvalid, n, 1)) {
                busy = true;
                uint64_t data = bjc_rtl_get(top.tx_tdata, 64 * n, 64), keep = bjc_rtl_get(top.tx_tkeep, 8 * n, 8);
                for (unsigned byte = 0; byte < 8; byte++)
                    if (keep >> byte & 1)
                        port.sending.push_back((uint8_t)(data >> 8 * byte));
                if (bjc_rtl_get(top.tx_tlast, n, 1)) {
                    bjc_send(port.channel, port.sending.data(), port.sending.size());
                    port.sending.clear();
                    port.sent++;
                }
            }
        }
        top.clk = 1;
        top.eval();
        rtl->dump(now + rtl->period / 2);
        rtl->cycles++;
        rtl->idle = busy ? 0 : rtl->idle + 1;
        rtl->sleeping = rtl->sleep && rtl->idle >= rtl->sleep;
        if (!rtl->sleeping)
            bjc_at(sim, now + rtl->period, cycle, rtl);
    }
};

/* The program: [--clock NS] [--trace FILE.vcd] [--sleep CYCLES] and the adapter URL of each port. With --sleep the clock stops after so many
 * cycles without a beat on any port, until a frame arrives: for modules that do nothing by themselves. */
template <class Module, unsigned PORTS> int bjc_rtl_main(int argc, char **argv) {
    bjc_rtl<Module, PORTS> rtl;
    std::string waveform;
    unsigned count = 0;
    rtl.top.reset(new Module(rtl.context.get()));
    for (int n = 1; n < argc; n++) {
        if (!strcmp(argv[n], "--clock") && n + 1 < argc) {
            rtl.period = (uint64_t)(atof(argv[++n]) * 1000);
        } else if (!strcmp(argv[n], "--trace") && n + 1 < argc) {
            waveform = argv[++n];
        } else if (!strcmp(argv[n], "--sleep") && n + 1 < argc) {
            rtl.sleep = strtoull(argv[++n], NULL, 10);
        } else if (count < PORTS) {
            struct bjc_channel *channel = bjc_open(rtl.sim, argv[n], bjc_rtl<Module, PORTS>::arrived);
            rtl.ports[count].channel = channel;
            rtl.ports[count].rtl = &rtl;
            if (channel)
                channel->user = &rtl.ports[count];
            count++;
        } else {
            count = PORTS + 1;
        }
    }
    if (count != PORTS || !rtl.period) {
        fprintf(stderr, "usage: %s [--clock NS] [--trace FILE.vcd] [--sleep CYCLES] and %u adapter URLs\n", argv[0], PORTS);
        return 2;
    }
#if VM_TRACE
    if (!waveform.empty()) {
        rtl.context->traceEverOn(true);
        rtl.trace.reset(new VerilatedVcdC);
        rtl.trace->set_time_unit("1ps");
        rtl.trace->set_time_resolution("1ps");
        rtl.top->trace(rtl.trace.get(), 99);
        rtl.trace->open(waveform.c_str());
    }
#else
    if (!waveform.empty())
        fprintf(stderr, "%s: it was built without waveforms: use `make TRACE=1`\n", argv[0]);
#endif
    bjc_at(rtl.sim, 0, bjc_rtl<Module, PORTS>::cycle, &rtl);
    int result = bjc_run(rtl.sim, BJC_NEVER);
    rtl.top->final();
#if VM_TRACE
    if (rtl.trace)
        rtl.trace->close();
#endif
    if (result) {
        fprintf(stderr, "%s: %s\n", argv[0], bjc_error(rtl.sim));
        return 1;
    }
    for (unsigned n = 0; n < PORTS; n++)
        printf("port %u: %llu frames received, %llu sent\n", n, (unsigned long long)rtl.ports[n].received, (unsigned long long)rtl.ports[n].sent);
    return 0;
}

#endif
