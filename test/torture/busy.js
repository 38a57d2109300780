// Optimised code that is thrown away again, exceptions, timers, worker threads, checked, for as many seconds as the argument says.
"use strict";
const { Worker, isMainThread, parentPort } = require("worker_threads");
const crypto = require("crypto");

function wrong(what) {
    console.log("wrong: " + what);
    process.exit(1);
}

function fibonacci(n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

function thrower(depth) {
    if (depth === 0) throw new Error("deep");
    return thrower(depth - 1) + 1;
}

function round(seed) {
    if (fibonacci(18) !== 2584) wrong("fibonacci");
    try {
        thrower(seed % 200);
        wrong("no exception");
    } catch (error) {
        if (error.message !== "deep") wrong(String(error));
    }
    const add = new Function("a", "b", `return a + b + ${seed % 7};`);
    if (add(1, 2) !== 3 + (seed % 7) || add("x", "y") !== "xy" + (seed % 7)) wrong("generated function");
    const objects = [];
    for (let i = 0; i < 2000; i++) objects.push({ i, ["k" + ((i + seed) % 50)]: String(i) });
    if (objects.reduce((sum, o) => sum + o.i, 0) !== 1999000) wrong("sum of objects");
    const text = JSON.stringify(objects);
    if (JSON.parse(text).length !== 2000) wrong("JSON");
    if (crypto.createHash("sha256").update("abc").digest("hex").slice(0, 8) !== "ba7816bf") wrong("sha256");
}

if (!isMainThread) {
    parentPort.on("message", (seed) => {
        round(seed);
        parentPort.postMessage(seed);
    });
} else {
    const end = Date.now() + Number(process.argv[2]) * 1000;
    let requests = 0;
    const workers = [1, 2].map(() => new Worker(__filename));
    for (const worker of workers) {
        worker.on("error", (error) => wrong(String(error)));
        worker.on("message", (seed) => {
            requests++;
            if (Date.now() < end) worker.postMessage(seed + 1);
            else worker.terminate();
        });
        worker.postMessage(1);
    }
    const tick = () => {
        round(requests);
        requests++;
        if (Date.now() < end) setTimeout(tick, 1);
    };
    tick();
    process.on("exit", (code) => {
        if (!code) console.log("requests " + requests);
    });
}
