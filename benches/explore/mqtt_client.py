#!/usr/bin/python3
"""A publisher that waits for each message to be sent: with paho-mqtt 1.6.1 a wait for a message of QoS 0 that a lost connection took never ends.

    mqtt_client.py BROKER"""

import sys
import time

import paho.mqtt.client as mqtt

versions = getattr(mqtt, "CallbackAPIVersion", None)
client = mqtt.Client(*([versions.VERSION2] if versions else []), client_id="publisher")
client.reconnect_delay_set(1, 2)
client.connect(sys.argv[1], 1883, keepalive=5)
client.loop_start()
number = 0
while True:
    message = client.publish("topic", b"x" * 2000, qos=0)
    try:
        message.wait_for_publish()
    except (RuntimeError, ValueError):
        # Not connected: nothing was queued.
        time.sleep(0.5)
        continue
    number += 1
    print("published", number, flush=True)
    time.sleep(0.05)
