// Shows the reports of the admin endpoint. All received data is inserted as text, never as markup.
"use strict";

const KINDS = [["Read", "Reads"], ["RangeSlice", "Scans"], ["Write", "Writes"], ["CASRead", "Serial reads"],
  ["CASWrite", "Conditional writes"]];
const TABLE_KINDS = [["read", "Reads"], ["scan", "Scans"], ["write", "Writes"]];
const RANGES = [[300, "5 min"], [900, "15 min"], [3600, "1 h"], [10800, "3 h"], [86400, "24 h"]];
const LEVELS = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

const view = { range: RANGES[1], table: null, zoom: null, kind: "Read", cursor: null };
let history = { step: 1, times: [], values: {} };
let charts = [];

const $ = (id) => document.getElementById(id);

function element(name, text, children = [], className = "") {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function count(n) {
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e4, " k"]]) {
    if (n >= size) return (n / (unit === " k" ? 1e3 : size)).toFixed(1) + unit;
  }
  return n >= 100 || Number.isInteger(n) ? Math.round(n).toString() : n.toFixed(n < 1 ? 2 : 1);
}

function bytes(n) {
  for (const [size, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (n >= size) return (n / size).toFixed(n / size < 10 ? 1 : 0) + " " + unit;
  }
  return Math.round(n) + " B";
}

function millis(n) {
  if (n === null || n === undefined) return "–";
  if (n >= 10000) return (n / 1000).toFixed(1) + " s";
  return (n < .1 ? n.toFixed(3) : n < 10 ? n.toFixed(2) : n < 100 ? n.toFixed(1) : Math.round(n).toString()) + " ms";
}

// The same without a unit, for tables that name it.
const inMillis = (n) => n === null ? "–" : +n.toPrecision(3) + "";

// Returns a tick of a logarithmic axis.
const decade = (n) => n >= 1000 ? n / 1000 + " s" : +n.toPrecision(1) + " ms";

function duration(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const from = units.findIndex(([size]) => seconds >= size);
  if (from < 0) return "0 s";
  const [size, unit] = units[from];
  const rest = units[from + 1] && Math.floor(seconds % size / units[from + 1][0]);
  return `${Math.floor(seconds / size)} ${unit}` + (rest ? ` ${rest} ${units[from + 1][1]}` : "");
}

const rates = (n) => count(n) + "/s";
const throughput = (n) => bytes(n) + "/s";

function percentiles(key) {
  return [["50 %", `p50:${key}`], ["99 %", `p99:${key}`], ["99.9 %", `p999:${key}`]];
}

function definitions() {
  const kinds = view.table ? TABLE_KINDS : KINDS;
  const label = kinds.find(([kind]) => kind === view.kind)[1];
  const common = [
    { title: "Requests per second", lines: kinds.map(([kind, name]) => [name, `rate:${kind}`]), format: count,
      least: 1 },
    { title: `Latency of ${label.toLowerCase()}`, lines: percentiles(view.kind), format: millis, tick: decade,
      least: 1, isLog: true },
  ];
  if (view.table) {
    return [...common,
      { title: "Size on disk", lines: [["SSTables", "disk_bytes"]], format: bytes, least: 1024, isBytes: true },
      { title: "SSTables", lines: [["SSTables", "sstables"], ["pending compactions", "pending_compactions"]],
        format: count, least: 4 }];
  }
  return [...common,
    { title: "Stalled writes and failures", lines: [["stalled", "writes_stalled"], ["failed", "failures"],
      ["exceptions", "exceptions"]], format: rates, least: 1 },
    { title: "Processor time", lines: [["processors", "cpu"]], format: count, least: 1 },
    { title: "Commit log sync", lines: percentiles("commit_log_sync"), format: millis, tick: decade, least: 1,
      isLog: true },
    { title: "Compactions and flushes", lines: [["compacted", "bytes_compacted"], ["flushed", "bytes_flushed"]],
      format: throughput, least: 1024, isBytes: true },
    { title: "Waiting work", lines: [["pending compactions", "pending_compactions"],
      ["waiting requests", "waiting_requests"], ["clients", "clients"]], format: count, least: 4 },
    { title: "Memory", lines: [["process", "memory_bytes"], ["memtables", "memtable_bytes"]], format: bytes,
      least: 1024, isBytes: true },
    { title: "Disk", lines: [["SSTables", "disk_bytes"], ["commit log", "commit_log_bytes"],
      ["available", "disk_available_bytes"]], format: bytes, least: 1024, isBytes: true },
    { title: "Block cache", lines: [["hits", "chunk_cache_hits"], ["misses", "chunk_cache_misses"]], format: rates,
      least: 1 },
  ];
}

// Adds a report to the history: its points replace those at the same times and later.
function merge(report, restart) {
  const values = {};
  for (const [name, list] of Object.entries({ ...report.rates, ...report.levels })) values[name] = list;
  if (values.cpu_micros) values.cpu = values.cpu_micros.map((micros) => micros / 1e6);
  for (const [name, latency] of Object.entries(report.latencies)) {
    values[`rate:${name}`] = latency.rates;
    for (const fraction of ["p50", "p99", "p999"]) values[`${fraction}:${name}`] = latency[fraction];
  }
  if (restart || history.step !== report.step_seconds) {
    history = { step: report.step_seconds, times: report.times, values };
    return;
  }
  const oldest = report.now - view.range[0] - 2 * history.step;
  const first = history.times.findIndex((time) => time > oldest);
  const kept = history.times.findIndex((time) => time >= report.times[0]);
  const [from, to] = [first < 0 ? 0 : first, report.times.length && kept >= 0 ? kept : history.times.length];
  history.times = history.times.slice(from, to).concat(report.times);
  for (const [key, list] of Object.entries(values)) {
    history.values[key] = (history.values[key] ?? []).slice(from, to).concat(list);
  }
}

function bounds(now) {
  return view.zoom ?? [now - view.range[0], now];
}

let shownNow = Date.now() / 1000;

function draw(now = shownNow) {
  shownNow = now;
  const [from, to] = bounds(now);
  charts.forEach((chart) => chart.draw(history, from, to));
}

const events = {
  cursor: () => view.cursor,
  point(time, isAnnounced) {
    view.cursor = time;
    charts.forEach((chart) => chart.history && chart.point(time));
    if (isAnnounced) $("cursor").textContent = document.activeElement.tagName === "svg"
      ? charts.find((chart) => chart.svg === document.activeElement)?.shown.map((pair) => pair.join(" ")).join(", ") +
        ` at ${clock(time, true)}` : "";
  },
  zoom(from, to) {
    if (to - from < 5) return;
    if (to - from > 86400 || to > shownNow + 1) to = Math.min(to, shownNow);
    view.zoom = [Math.max(from, to - 86400), to];
    restart();
  },
  reset() {
    if (!view.zoom) return;
    view.zoom = null;
    restart();
  },
};

function controls() {
  const kinds = view.table ? TABLE_KINDS : KINDS;
  if (!kinds.some(([kind]) => kind === view.kind)) view.kind = kinds[0][0];
  $("kind").replaceChildren(...kinds.map(([kind, label]) => {
    const option = element("option", label);
    option.value = kind;
    option.selected = kind === view.kind;
    return option;
  }));
  $("ranges").replaceChildren(...RANGES.map((range) => {
    const button = element("button", range[1]);
    button.setAttribute("aria-pressed", String(!view.zoom && range === view.range));
    button.addEventListener("click", () => { [view.range, view.zoom] = [range, null]; restart(true); });
    return button;
  }));
  $("source").textContent = view.table ?? "the node";
  $("all").hidden = !view.table;
  $("live").hidden = !view.zoom;
}

// Fetches all of the selected history, and makes its charts. The pressed button keeps the focus.
function restart(keepsFocus = false) {
  controls();
  if (keepsFocus) $("ranges").querySelector("[aria-pressed=true]")?.focus();
  const wanted = definitions();
  const isSame = wanted.length === charts.length &&
    wanted.every(({ title }, i) => title === charts[i].definition.title);
  if (!isSame) {
    charts = wanted.map((definition) => new Chart(definition, events));
    $("charts").replaceChildren(...charts.map((chart) => chart.root));
  }
  history = { step: 1, times: [], values: {} };
  refreshHistory(true);
}

function fillTable(id, labels, rows, none) {
  const cell = (value) => value instanceof Node ? element("td", null, [value]) : element("td", value);
  const heads = labels.map((label) => { const head = element("th", label); head.scope = "col"; return head; });
  const body = element("tbody", null, rows.map((row) => element("tr", null, row.map(cell))));
  $(id).replaceChildren(...(rows.length ? [element("thead", null, [element("tr", null, heads)]), body]
    : [element("caption", none)]));
}

// A table of texts: its rows are marked, so that long ones wrap.
function fillTexts(id, labels, rows, none) {
  fillTable(id, labels, rows, none);
  $(id).className = "texts";
  $(id).querySelectorAll("tbody tr").forEach((row) => { row.firstChild.className = "text"; });
}

function bar(label, right, share) {
  const progress = element("progress");
  progress.max = 1;
  progress.value = Number.isFinite(share) ? share : 0;
  progress.setAttribute("aria-label", label);
  const texts = element("div", null, [element("span", label), element("span", right)]);
  return element("div", null, [texts, progress], "bar");
}

function link(text, action) {
  const button = element("button", text, [], "link");
  button.type = "button";
  button.addEventListener("click", action);
  return button;
}

function tiles(node, compactions, recent) {
  const all = KINDS.reduce((sum, [kind]) => sum + (recent[kind] ?? 0), 0);
  const pending = Object.values(compactions.pending).flatMap(Object.values).reduce((sum, n) => sum + n, 0);
  const free = node.disk_available_bytes === null ? "–" : bytes(node.disk_available_bytes);
  const shown = [
    ["requests/s", count(all)], ["failures/s", count(recent.failures ?? 0), recent.failures > 0],
    ["stalled writes/s", count(recent.writes_stalled ?? 0), recent.writes_stalled > 0],
    ["processors in use", count((recent.cpu_micros ?? 0) / 1e6)], ["clients", count(node.clients.length)],
    ["memory", bytes(node.memory_bytes)], ["memtables", bytes(node.memtable_bytes)],
    ["commit log", bytes(node.commit_log_bytes)], ["SSTables on disk", bytes(node.load_bytes)], ["disk available", free],
    ["pending compactions", count(pending)], ["exceptions since start", count(node.exceptions), node.exceptions > 0],
  ];
  $("tiles").replaceChildren(...shown.map(([label, value, isBad]) =>
    element("div", null, [element("b", value), element("span", label)], isBad ? "tile bad" : "tile")));
}

function showNode(node, compactions, recent) {
  $("version").textContent = node.version;
  $("node").textContent = `${node.cluster_name} · ${node.address}:${node.port} · up ${duration(node.uptime_seconds)}`;
  tiles(node, compactions, recent.recent_rates);
  const percents = ["50 %", "95 %", "99 %", "99.9 %"];
  fillTable("requests", ["", "requests", ...percents, "failures"], KINDS.map(([kind, label]) => {
    const latency = recent.recent_latencies[kind];
    return [label, count(latency.count), ...[latency.p50, latency.p95, latency.p99, latency.p999].map(inMillis),
      count(node.requests[kind].failures + node.requests[kind].timeouts)];
  }));
  const running = compactions.active.map((task) => bar(`${task.keyspace}.${task.table} · ${task.kind}`,
    task.unit === "bytes" ? `${bytes(task.completed)} of ${bytes(task.total)}`
      : `${count(task.completed)} of ${count(task.total)} ${task.unit}`, task.completed / task.total));
  const limit = compactions.throughput_bytes ? bytes(compactions.throughput_bytes) + "/s at most" : "unlimited";
  const done = `${count(compactions.completed)} completed, ${bytes(compactions.bytes_compacted)} written, ${limit}`;
  const none = element("p", "No compaction is running.", [], "none");
  $("compactions").replaceChildren(...(running.length ? running : [none]), element("p", done, [], "none"));
  $("caches").replaceChildren(...Object.entries(node.caches).filter(([, cache]) => cache.capacity_bytes > 0)
    .map(([name, cache]) => bar(`${name} cache`, `${bytes(cache.size_bytes)} of ${bytes(cache.capacity_bytes)}, ` +
      (cache.recent_hit_rate === null ? "no requests yet" : `${(cache.recent_hit_rate * 100).toFixed(1)} % hits`),
    cache.size_bytes / cache.capacity_bytes)));
  fillTable("pools", ["", "active", "pending", "completed", "blocked"], node.pools.map((pool) =>
    [pool.name, count(pool.active), count(pool.pending), count(pool.completed), count(pool.blocked_all_time)]));
}

function showTables(tables, recorded) {
  const known = new Map(recorded.map(({ name, rates: of }) => [name, of]));
  const users = tables.filter((table) => !/^system(_|$)/.test(table.keyspace))
    .sort((a, b) => b.live_bytes + b.memtable_bytes - a.live_bytes - a.memtable_bytes);
  const rows = users.map((table) => {
    const name = `${table.keyspace}.${table.table}`;
    const of = known.get(name);
    const open = () => {
      [view.table, view.kind] = [name, "read"];
      restart();
      $("history-title").scrollIntoView();
      $("all").focus();
    };
    return [of ? link(name, open) : name, ...TABLE_KINDS.map(([kind]) => count(of?.[kind] ?? 0)),
      table.sstables_per_read.mean === null ? "–" : table.sstables_per_read.mean.toFixed(1),
      count(table.sstables), table.levels.length ? levels(table.levels) : "–", bytes(table.live_bytes),
      bytes(table.memtable_bytes), count(table.pending_compactions), bytes(table.max_partition_bytes)];
  });
  fillTable("tables", ["", "reads", "scans", "writes", "SSTables/read", "SSTables", "levels", "on disk", "memtables",
    "pending", "largest partition"], rows, "No tables yet. CREATE TABLE creates one.");
}

function levels(all) {
  let used = all.length;
  while (used > 1 && all[used - 1].sstables === 0) used--;
  return all.slice(0, used).map((level) => level.sstables).join(" · ");
}

function showStatements(running, slow) {
  const cancel = (id) => link("Cancel", async (event) => {
    event.target.disabled = true;
    const answer = await post("/v1/operations", { operation: "cancel_statement", id });
    event.target.textContent = answer.ok ? "cancelled" : "has ended";
  });
  // A button that is about to be pressed must stay.
  if (!$("running").contains(document.activeElement)) {
    fillTexts("running", ["statement", "running", "waited", ""], (running ?? []).map((statement) =>
      [statement.text, millis(statement.running_millis), millis(statement.queued_millis), cancel(statement.id)]),
    running ? "None runs long enough to be seen." : "Only operators see statements.");
  }
  const rounded = (n) => Math.round(n).toString();
  fillTexts("slow", ["statement", "times", "mean", "least", "most", "last"], (slow ?? []).map((query) =>
    [query.text, count(query.count), rounded(query.mean_millis), rounded(query.min_millis), rounded(query.max_millis),
      new Date(query.last_millis).toLocaleTimeString()]),
  slow ? "No slow statement yet." : "Only operators see statements.");
}

function showLog(lines) {
  const log = $("log");
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 20;
  const wanted = LEVELS.slice(0, LEVELS.indexOf($("level").value) + 1);
  const shown = (lines ?? []).filter((line) => wanted.includes(line.level)).map((line) => {
    const time = new Date(line.time_millis).toLocaleTimeString([], { hour12: false });
    return element("span", `${time} ${line.level.padEnd(5)} ${line.target}: ${line.message}\n`, [], line.level);
  });
  const none = lines ? "No lines of this level yet." : "Only operators see the log.";
  log.replaceChildren(...(shown.length ? shown : [element("span", none, [], "none")]));
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

async function report(path) {
  const answer = await fetch(path);
  // Clients that may only read do not see texts of statements.
  if (answer.status === 403) return null;
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  return { ok: answer.ok, content: await answer.json() };
}

function historyPath(from, to, step) {
  const asked = new URLSearchParams({ from: Math.max(0, Math.floor(from)) });
  if (to) asked.set("to", Math.ceil(to));
  if (step) asked.set("step", step);
  if (view.table) asked.set("table", view.table);
  return `/v1/history?${asked}`;
}

let lastHistory = 0;

// Fetches what is new; of points that were not complete, all.
async function refreshHistory(isRestart) {
  const asked = { ...view };
  const now = Date.now() / 1000;
  if (!isRestart && (view.zoom || now - lastHistory < history.step / 3)) return;
  lastHistory = now;
  const latest = history.times[history.times.length - 1];
  // The server chooses the resolution that reaches back far enough; what follows has the same.
  const path = view.zoom ? historyPath(view.zoom[0] - 60, view.zoom[1] + 60)
    : isRestart || !latest ? historyPath(shownNow - view.range[0] - 10) : historyPath(latest - 1, null, history.step);
  const answer = await report(path).catch((error) => { fail(error); return null; });
  // The view may have changed meanwhile.
  if (!answer || asked.table !== view.table || asked.range !== view.range || asked.zoom !== view.zoom) return;
  merge(answer, isRestart);
  draw(answer.now);
}

function fail(error) {
  $("state").textContent = `no answer: ${error.message}`;
  $("state").className = "bad";
}

async function refresh() {
  if (!document.hidden) {
    try {
      const now = Math.floor(Date.now() / 1000);
      const [node, tables, compactions, recent, slow, running, log] = await Promise.all(["/v1/node", "/v1/tables",
        "/v1/compactions", `/v1/history?from=${now}`, "/v1/slow_queries", "/v1/running", "/v1/log"].map(report));
      showNode(node, compactions, recent);
      showTables(tables, recent.tables);
      showStatements(running, slow);
      showLog(log);
      await refreshHistory(false);
      $("state").textContent = "live";
      $("state").className = "";
    } catch (error) {
      fail(error);
    }
  }
  setTimeout(refresh, 2000);
}

async function run() {
  const began = performance.now();
  $("query-state").textContent = "running";
  $("query-state").className = "none";
  const { ok, content } = await post("/v1/query", { statement: $("statement").value }).catch((error) =>
    ({ ok: false, content: { error: error.message } }));
  if (!ok) {
    $("query-state").textContent = content.error;
    $("query-state").className = "bad-text";
    return;
  }
  $("answer").className = "texts";
  fillTable("answer", content.columns.map(({ name, type }) => `${name} (${type})`), content.rows, "No rows.");
  $("query-state").textContent = `${content.rows.length} rows${content.has_more ? ", and more" : ""} in ` +
    `${millis(content.millis)} (${millis(performance.now() - began)} with the network)` +
    content.warnings.map((warning) => `; warning: ${warning}`).join("");
}

$("query").addEventListener("submit", (event) => { event.preventDefault(); run(); });
$("statement").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
});
$("kind").addEventListener("change", () => { view.kind = $("kind").value; restart(); });
$("all").addEventListener("click", () => { [view.table, view.kind] = [null, "Read"]; restart(); });
$("live").addEventListener("click", () => events.reset());
window.addEventListener("resize", () => draw());
restart();
refresh();
