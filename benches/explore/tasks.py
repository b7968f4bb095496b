#!/usr/bin/python3
"""A worker of celery and a producer of its tasks.

    tasks.py work
    tasks.py produce"""

import os
import sys
import time

import celery

app = celery.Celery("tasks", broker=f"redis://{os.environ['BROKER']}/0")
app.conf.update(broker_connection_retry_on_startup=True, broker_connection_max_retries=None, task_ignore_result=True, worker_redirect_stdouts=False)


@app.task(name="work")
def work(number):
    print("done", number, flush=True)


def produce():
    app.conf.broker_transport_options = {"socket_timeout": 2, "socket_connect_timeout": 2, "max_retries": 0}
    number = 0
    while True:
        number += 1
        try:
            work.apply_async((number,), retry=False)
            print("sent", number, flush=True)
        except Exception as error:
            print(f"{number}: {error!r}", flush=True)
        time.sleep(1)


if sys.argv[1] == "work":
    app.worker_main(["worker", "--concurrency", "1", "--without-gossip", "--without-mingle", "-l", "INFO"])
else:
    produce()
