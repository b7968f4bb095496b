#!/usr/bin/env node
// A publisher and a subscriber with MQTT.js at QoS 1: each message that was published is to be delivered in the end.
//
//     mqtt_store.js publish BROKER [--repeat]
//     mqtt_store.js subscribe BROKER
//
// With --repeat the publisher publishes a message again whose callback says that it failed.

const mqtt = require("mqtt");

const [role, broker, repeat] = process.argv.slice(2);
const client = mqtt.connect(`mqtt://${broker}:1883`, {
  clientId: role, clean: false, reconnectPeriod: 200, connectTimeout: 2000, keepalive: 3,
});
client.on("error", (error) => console.log("error", error.message));

const COUNT = 1500;

function publish(number) {
  client.publish("topic", String(number), { qos: 1 }, (error) => {
    if (error && repeat) setTimeout(publish, 100, number);
  });
}

if (role === "publish") {
  let number = 0;
  const timer = setInterval(() => {
    publish(number++);
    if (number === COUNT) {
      clearInterval(timer);
      console.log("published");
    }
  }, 20);
} else {
  const seen = new Set();
  client.on("connect", () => client.subscribe("topic", { qos: 1 }));
  client.on("message", (_, message) => seen.add(Number(message)));
  setTimeout(() => {
    const lost = [];
    for (let number = 0; number < COUNT; number++) if (!seen.has(number)) lost.push(number);
    console.log(lost.length ? `lost ${lost.length}: ${lost.slice(0, 20)}` : "all delivered");
  }, 58000);
}
