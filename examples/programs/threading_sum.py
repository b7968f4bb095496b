#!/usr/bin/python3
"""threading: eight workers take jobs from a queue, sleep as told, and add up under a lock."""

import queue
import threading
import time

jobs, lock, total = queue.Queue(), threading.Lock(), 0
for n in range(200):
    jobs.put(n)


def work():
    global total
    while True:
        try:
            n = jobs.get_nowait()
        except queue.Empty:
            return
        time.sleep(0.01)
        with lock:
            total += n


start = time.monotonic()
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
done = threading.Event()
timer = threading.Timer(0.5, done.set)
timer.start()
assert not done.wait(0.1) and done.wait()
print(f"sum {total}, {time.monotonic() - start:.2f} s", flush=True)
