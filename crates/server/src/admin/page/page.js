// Draws the reports of the admin endpoint, fetched again every two seconds. All received data is inserted
// as text, never as markup.
"use strict";

const EVERY_MILLIS = 2000;
const KEPT = 150;
const KINDS = [["Read", "Reads", "--a"], ["RangeSlice", "Scans", "--b"], ["Write", "Writes", "--c"],
  ["CASRead", "Serial reads", "--d"], ["CASWrite", "Conditional writes", "--e"]];

const history = [];
let last = null;

const $ = (id) => document.getElementById(id);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(name, text, children = []) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  made.append(...children);
  return made;
}

function count(n) {
  if (n >= 1e9) return (n / 1e9).toFixed(1) + " G";
  if (n >= 1e6) return (n / 1e6).toFixed(1) + " M";
  if (n >= 1e4) return (n / 1e3).toFixed(1) + " k";
  return n >= 100 || Number.isInteger(n) ? Math.round(n).toString() : n.toFixed(1);
}

function bytes(n) {
  for (const [size, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (n >= size) return (n / size).toFixed(n / size < 10 ? 1 : 0) + " " + unit;
  }
  return n + " B";
}

function millis(micros) {
  if (micros === 0) return "–";
  const n = micros / 1000;
  return n < 10 ? n.toFixed(2) : n < 100 ? n.toFixed(1) : Math.round(n).toString();
}

function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].map(([size, unit], i, all) =>
    [Math.floor(i ? (seconds % all[i - 1][0]) / size : seconds / size), unit]);
  const from = parts.findIndex(([n]) => n > 0);
  const shown = from < 0 ? parts.slice(-1) : parts.slice(from, from + 2).filter(([n]) => n > 0);
  return shown.map(([n, unit]) => n + " " + unit).join(" ");
}

function fillTable(id, labels, rows, none) {
  const head = element("thead", null, [element("tr", null, labels.map((label) => element("th", label)))]);
  const body = element("tbody", null, rows.map((row) => element("tr", null, row.map((cell) => element("td", cell)))));
  $(id).replaceChildren(...(rows.length ? [head, body] : [element("caption", none)]));
}

function bar(label, right, share) {
  const progress = element("progress");
  progress.max = 1;
  progress.value = Number.isFinite(share) ? share : 0;
  const made = element("div", null, [element("div", null, [element("span", label), element("span", right)]), progress]);
  made.className = "bar";
  return made;
}

function tiles(pairs) {
  $("tiles").replaceChildren(...pairs.map(([label, value]) => {
    const tile = element("div", null, [element("b", value), element("span", label)]);
    tile.className = "tile";
    return tile;
  }));
}

// Returns a round number at or above n.
function ceiling(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1e-3)));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= n) ?? 10 * power;
}

function chart(id, values, label, least) {
  const canvas = $(id), ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const [left, right, top, bottom] = [52, width - 4, 8, height - 20];
  const most = ceiling(Math.max(least, ...history.flatMap((moment) => KINDS.map(([kind]) => values(moment)[kind] ?? 0))));
  const x = (i) => right - (history.length - 1 - i) * (right - left) / (KEPT - 1);
  const y = (value) => bottom - value / most * (bottom - top);
  pen.font = "12px system-ui, sans-serif";
  pen.strokeStyle = color("--line");
  pen.fillStyle = color("--faint");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (let step = 0; step <= 4; step++) {
    const value = most * step / 4;
    pen.beginPath();
    pen.moveTo(left, Math.round(y(value)) + .5);
    pen.lineTo(right, Math.round(y(value)) + .5);
    pen.stroke();
    pen.fillText(label(value), left - 8, y(value));
  }
  pen.textBaseline = "alphabetic";
  pen.textAlign = "left";
  pen.fillText(duration(KEPT * EVERY_MILLIS / 1000) + " ago", left, height - 4);
  pen.textAlign = "right";
  pen.fillText("now", right, height - 4);
  pen.lineWidth = 2;
  pen.lineJoin = "round";
  for (const [kind, , name] of KINDS) {
    if (!history.some((moment) => values(moment)[kind] > 0)) continue;
    pen.strokeStyle = pen.fillStyle = color(name);
    pen.beginPath();
    history.forEach((moment, i) => pen.lineTo(x(i), y(values(moment)[kind] ?? 0)));
    pen.stroke();
    const end = history.length - 1;
    pen.beginPath();
    pen.arc(x(end), y(values(history[end])[kind] ?? 0), 3, 0, 2 * Math.PI);
    pen.fill();
  }
}

function legend(id, values, text) {
  const now = history[history.length - 1];
  $(id).replaceChildren(...KINDS.map(([kind, label, name]) => {
    const mark = element("i");
    mark.style.background = `var(${name})`;
    return element("span", null, [mark, `${label} ${text(values(now)[kind] ?? 0)}`]);
  }));
}

function draw() {
  if (!history.length) return;
  chart("throughput", (moment) => moment.rates, count, 4);
  legend("throughput-legend", (moment) => moment.rates, count);
  const shown = (n) => n < 1 ? n.toFixed(2) : n < 10 ? n.toFixed(1) : Math.round(n).toString();
  chart("latency", (moment) => moment.p99, shown, .1);
  legend("latency-legend", (moment) => moment.p99, (n) => n === 0 ? "–" : shown(n) + " ms");
}

function show(node, tables, compactions, slow, at) {
  const moment = { rates: {}, p99: {} };
  const seconds = last ? (at - last.at) / 1000 : 0;
  for (const [kind] of KINDS) {
    const latency = node.requests[kind].latency;
    const before = last ? last.counts[kind] : latency.count;
    moment.rates[kind] = seconds > 0 ? Math.max(0, latency.count - before) / seconds : 0;
    moment.p99[kind] = latency.p99 / 1000;
  }
  last = { at, counts: Object.fromEntries(KINDS.map(([kind]) => [kind, node.requests[kind].latency.count])) };
  history.push(moment);
  history.splice(0, history.length - KEPT);

  $("version").textContent = node.version;
  $("node").textContent = `${node.cluster_name} · ${node.address}:${node.port} · up ${duration(node.uptime_seconds)}`;
  const all = Object.values(moment.rates).reduce((sum, n) => sum + n, 0);
  const pending = Object.values(compactions.pending).flatMap(Object.values).reduce((sum, n) => sum + n, 0);
  tiles([
    ["requests/s", count(all)], ["clients", count(node.clients.length)], ["on disk", bytes(node.load_bytes)],
    ["memory", bytes(node.memory_bytes)], ["memtables", bytes(node.memtable_bytes)],
    ["commit log", bytes(node.commit_log_bytes)], ["pending compactions", count(pending)], ["exceptions", count(node.exceptions)],
  ]);
  fillTable("requests", ["milliseconds", "50 %", "95 %", "99 %", "99.9 %", "most", "failed"], KINDS.map(([kind, label]) => {
    const { latency, failures } = node.requests[kind];
    return [label, ...[latency.p50, latency.p95, latency.p99, latency.p999, latency.max].map(millis), count(failures)];
  }));
  const running = compactions.active.map((task) => bar(`${task.keyspace}.${task.table} · ${task.kind}`,
    `${bytes(task.completed)} of ${bytes(task.total)}`, task.completed / task.total));
  const done = element("p", `${count(compactions.completed)} completed, ${bytes(compactions.bytes_compacted)} written, ` +
    `${compactions.throughput_bytes ? bytes(compactions.throughput_bytes) + "/s at most" : "throughput unlimited"}`);
  done.className = "none";
  const none = element("p", "No compaction is running.");
  none.className = "none";
  $("compactions").replaceChildren(...(running.length ? running : [none]), done);
  $("caches").replaceChildren(...Object.entries(node.caches).filter(([, cache]) => cache.capacity_bytes > 0).map(([name, cache]) =>
    bar(`${name} cache`, `${bytes(cache.size_bytes)} of ${bytes(cache.capacity_bytes)}, ` +
      (cache.recent_hit_rate === null ? "no requests yet" : `${(cache.recent_hit_rate * 100).toFixed(1)} % hits`),
    cache.size_bytes / cache.capacity_bytes)));
  fillTable("pools", ["", "active", "pending", "completed", "blocked"], node.pools.map((pool) =>
    [pool.name, count(pool.active), count(pool.pending), count(pool.completed), count(pool.blocked_all_time)]));
  const rounded = (n) => Math.round(n).toString();
  fillTable("slow", ["milliseconds", "times", "mean", "least", "most", "last"], (slow ?? []).map((query) =>
    [query.text, count(query.count), rounded(query.mean_millis), rounded(query.min_millis), rounded(query.max_millis),
      new Date(query.last_millis).toLocaleTimeString()]),
    slow ? "No slow query yet." : "Only operators see slow queries.");
  const users = tables.filter((table) => !/^system(_|$)/.test(table.keyspace))
    .sort((a, b) => b.live_bytes + b.memtable_bytes - a.live_bytes - a.memtable_bytes);
  fillTable("tables", ["", "reads/s", "writes/s", "read 99 %", "write 99 %", "SSTables/read", "SSTables", "levels", "on disk", "memtables", "pending compactions"],
    users.map((table) => [`${table.keyspace}.${table.table}`, count(table.read.one_minute_rate), count(table.write.one_minute_rate),
      millis(table.read.p99), millis(table.write.p99), table.sstables_per_read.mean === null ? "–" : table.sstables_per_read.mean.toFixed(1),
      count(table.sstables), table.levels.length ? levels(table.levels) : "–", bytes(table.live_bytes), bytes(table.memtable_bytes),
      count(table.pending_compactions)]), "No tables yet. CREATE TABLE creates one.");
}

function levels(all) {
  let used = all.length;
  while (used > 1 && all[used - 1].sstables === 0) used--;
  return all.slice(0, used).map((level) => level.sstables).join(" · ");
}

async function report(path) {
  const answer = await fetch(path);
  // Clients that may only read do not see texts of queries.
  if (answer.status === 403) return null;
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function refresh() {
  try {
    const reports = await Promise.all(["/v1/node", "/v1/tables", "/v1/compactions", "/v1/slow_queries"].map(report));
    show(...reports, performance.now());
    draw();
    $("state").textContent = "live";
    $("state").className = "";
  } catch (error) {
    $("state").textContent = `no answer: ${error.message}`;
    $("state").className = "bad";
  }
  setTimeout(refresh, EVERY_MILLIS);
}

window.addEventListener("resize", draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
refresh();
