#!/usr/bin/env python3
"""A middlebox between two channels that delays frames, and loses some.

    middlebox.py LEFT RIGHT [--delay US] [--loss PROBABILITY] [--seed N]

LEFT and RIGHT are adapter URLs, such as connect:a.sock:sync=true:latency=500 (nanoseconds)."""

import argparse
import random
import sys

from belljar_channel import ChannelError, Simulator


def main():
    parser = argparse.ArgumentParser(description="Delays and loses frames between two channels.")
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--delay", type=float, default=0, metavar="US", help="microseconds that it takes beside the channels' latencies")
    parser.add_argument("--loss", type=float, default=0, help="the probability with which a frame is lost")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    simulator, draw, counts = Simulator(), random.Random(options.seed), {"passed": 0, "lost": 0}
    delay = round(options.delay * 1_000_000)

    def passing(to):
        def passes(frame):
            lost = draw.random() < options.loss
            counts["lost" if lost else "passed"] += 1
            if not lost:
                simulator.after(delay, to.send, frame) if delay else to.send(frame)
        return passes

    try:
        left, right = simulator.channel(options.left), simulator.channel(options.right)
        left.on_frame, right.on_frame = passing(right), passing(left)
        simulator.run()
    except ChannelError as error:
        sys.exit(f"middlebox: {error}")
    print(f"{counts['passed']} frames passed, {counts['lost']} lost", flush=True)


if __name__ == "__main__":
    main()
