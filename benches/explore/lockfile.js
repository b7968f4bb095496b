#!/usr/bin/env node
// A process that takes a lock of proper-lockfile again and again; now and then it is killed while it holds it, and started again.
//
//     lockfile.js NAME [--release]
//
// With --release it is never killed, so that no lock is ever stale.

const fs = require("fs");
const { spawn } = require("child_process");
const { lock } = require("proper-lockfile");

const [name, release] = process.argv.slice(2);
const HISTORY = "history.jsonl";

function note(f, type, number) {
  fs.appendFileSync(HISTORY, JSON.stringify({ process: `${name}.${number}`, type, f }) + "\n");
}

async function work(first) {
  for (let number = first; ; number++) {
    const unlock = await lock(".", { stale: 4000, retries: { forever: true, factor: 1, minTimeout: 100, maxTimeout: 100 } });
    note("acquire", "invoke", number);
    note("acquire", "ok", number);
    await new Promise((resolve) => setTimeout(resolve, 200));
    // It uses the lock no longer.
    note("release", "invoke", number);
    note("release", "ok", number);
    if (!release) {
      // Killed before it has released the lock: the lock becomes stale.
      fs.writeFileSync(`${name}.number`, String(number + 1));
      process.kill(process.pid, "SIGKILL");
    }
    await unlock();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

if (process.env.LOCKFILE_WORKER) {
  work(fs.existsSync(`${name}.number`) ? Number(fs.readFileSync(`${name}.number`)) : 0);
} else {
  const start = () => {
    const child = spawn(process.argv[0], process.argv.slice(1), { stdio: "inherit", env: { ...process.env, LOCKFILE_WORKER: "1" } });
    child.on("exit", start);
  };
  start();
}
