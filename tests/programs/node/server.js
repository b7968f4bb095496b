// node's http module on port 80: what is asked for is computed by four worker_threads, which share memory.
'use strict';
const http = require('http');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

if (isMainThread) {
  const counts = new Int32Array(new SharedArrayBuffer(16));
  const waiting = new Map();
  let asked = 0;
  const workers = [0, 1, 2, 3].map((number) => {
    const worker = new Worker(__filename, { workerData: { number, counts } });
    worker.on('message', ({ id, sum }) => {
      waiting.get(id)(sum);
      waiting.delete(id);
    });
    return worker;
  });
  http.createServer((request, response) => {
    if (request.url === '/counts') {
      response.end(`${Array.from(counts)}\n`);
      return;
    }
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const id = asked++;
      waiting.set(id, (sum) => response.end(`${request.method} ${sum}\n`));
      workers[id % 4].postMessage({ id, data: Buffer.concat(parts) });
    });
  }).listen(80);
} else {
  const { number, counts } = workerData;
  parentPort.on('message', ({ id, data }) => {
    Atomics.add(counts, number, 1);
    parentPort.postMessage({ id, sum: data.reduce((sum, byte) => sum + byte, 0) });
  });
}
