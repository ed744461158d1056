// Line charts of the history, as SVG. Colors come from the style sheet, so that both themes work.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const TIME_STEPS = [5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600];

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function clock(seconds, withSeconds) {
  const options = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (withSeconds) options.second = "2-digit";
  return new Date(seconds * 1000).toLocaleTimeString([], options);
}

// Returns a round number at or above n; of bytes, one that is round in binary units.
function ceiling(n, isBytes) {
  if (isBytes) return 2 ** Math.ceil(Math.log2(Math.max(n, 4)));
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1e-9)));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= n * 0.9999) ?? 10 * power;
}

// A chart of several series over one time axis. `definition` has a title, lines with a label and a key
// of the history, a format for values, and the least maximum of the axis; `isLog` selects a logarithmic axis, and
// `isBytes` one that is divided in binary units.
class Chart {
  constructor(definition, events) {
    this.definition = definition;
    this.events = events;
    this.root = document.createElement("div");
    this.root.className = "chart";
    const title = document.createElement("h3");
    title.textContent = definition.title;
    this.svg = shape("svg", { tabindex: 0, role: "img" });
    this.legend = document.createElement("p");
    this.legend.className = "legend";
    this.root.append(title, this.svg, this.legend);
    this.listen();
  }

  listen() {
    let pressed = null;
    const timeOf = (event) => {
      const { left, right } = this.frame();
      const place = event.clientX - this.svg.getBoundingClientRect().left;
      return this.from + (this.to - this.from) * Math.min(1, Math.max(0, (place - left) / (right - left)));
    };
    this.svg.addEventListener("pointermove", (event) => {
      if (pressed !== null) this.select(pressed, timeOf(event));
      this.events.point(timeOf(event), false);
    });
    this.svg.addEventListener("pointerleave", () => this.events.point(null, false));
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      this.svg.setPointerCapture(event.pointerId);
      pressed = timeOf(event);
    });
    this.svg.addEventListener("pointerup", (event) => {
      const [from, to] = [pressed, timeOf(event)].sort((a, b) => a - b);
      if (pressed !== null && (to - from) * 40 > this.to - this.from) this.events.zoom(from, to);
      pressed = null;
      this.select(null);
    });
    this.svg.addEventListener("dblclick", () => this.events.reset());
    this.svg.addEventListener("keydown", (event) => this.press(event));
    this.svg.addEventListener("blur", () => this.events.point(null, false));
  }

  press(event) {
    const step = (this.to - this.from) / 60;
    const at = this.events.cursor() ?? this.to;
    const span = (factor) => this.events.zoom(at - (at - this.from) * factor, at + (this.to - at) * factor);
    const actions = {
      ArrowLeft: () => this.events.point(Math.max(this.from, at - step), true),
      ArrowRight: () => this.events.point(Math.min(this.to, at + step), true),
      Home: () => this.events.point(this.from, true),
      End: () => this.events.point(this.to, true),
      "+": () => span(0.5),
      "=": () => span(0.5),
      "-": () => span(2),
      Escape: () => { this.events.point(null, false); this.events.reset(); },
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  frame() {
    const { clientWidth, clientHeight } = this.svg;
    return { left: 58, right: Math.max(60, clientWidth - 6), top: 8, bottom: Math.max(30, clientHeight - 20) };
  }

  // Draws the points of `history` between two times.
  draw(history, from, to) {
    [this.history, this.from, this.to] = [history, from, to];
    const { left, right, top, bottom } = this.frame();
    const { lines, format, least, isLog } = this.definition;
    const times = history.times;
    const series = lines.map(([, key]) => history.values[key] ?? []);
    let most = least, lowest = Infinity;
    for (const values of series) {
      values.forEach((value, i) => {
        if (value === null || times[i] < from || times[i] > to) return;
        most = Math.max(most, value);
        if (value > 0) lowest = Math.min(lowest, value);
      });
    }
    const decades = [Math.floor(Math.log10(Math.min(lowest, most))), Math.ceil(Math.log10(most))];
    if (decades[1] <= decades[0]) decades[1] = decades[0] + 1;
    most = ceiling(most, this.definition.isBytes);
    const share = (value) => isLog
      ? (Math.log10(Math.max(value, 10 ** decades[0])) - decades[0]) / (decades[1] - decades[0]) : value / most;
    this.x = (time) => left + (time - from) / (to - from) * (right - left);
    const y = (value) => bottom - Math.min(1, Math.max(0, share(value))) * (bottom - top);
    const parts = [];
    const ticks = isLog
      ? Array.from({ length: decades[1] - decades[0] + 1 }, (_, i) => 10 ** (decades[0] + i))
      : [0, 1, 2, 3, 4].map((step) => most * step / 4);
    for (const value of ticks) {
      const height = Math.round(y(value)) + .5;
      parts.push(shape("line", { class: "grid", x1: left, x2: right, y1: height, y2: height }));
      const tick = this.definition.tick ?? format;
      parts.push(shape("text", { x: left - 6, y: height + 4, "text-anchor": "end" }, tick(value)));
    }
    const every = TIME_STEPS.find((step) => (to - from) / step * 64 <= right - left) ?? 43200;
    const offset = new Date(from * 1000).getTimezoneOffset() * 60;
    for (let time = Math.ceil((from - offset) / every) * every + offset; time <= to; time += every) {
      const place = this.x(time);
      parts.push(shape("line", { class: "grid", x1: place, x2: place, y1: bottom, y2: bottom + 4 }));
      const anchor = place > right - 20 ? "end" : "middle";
      parts.push(shape("text", { x: place, y: bottom + 17, "text-anchor": anchor }, clock(time, every < 60)));
    }
    series.forEach((values, n) => {
      let path = "", before = null;
      values.forEach((value, i) => {
        if (value === null || times[i] < from || times[i] > to) { before = null; return; }
        // A pause of the server is a gap.
        const joins = before !== null && times[i] - before <= history.step * 1.5;
        path += `${joins ? "L" : "M"}${this.x(times[i]).toFixed(1)} ${y(value).toFixed(1)}`;
        if (!joins) path += "h.1";
        before = times[i];
      });
      if (path) parts.push(shape("path", { class: `s${n % 5}`, d: path }));
    });
    this.band = shape("rect", { class: "selected", y: top, height: bottom - top, width: 0 });
    this.line = shape("line", { class: "cursor", y1: top, y2: bottom });
    parts.push(this.band, this.line);
    this.svg.replaceChildren(...parts);
    this.point(this.events.cursor());
    this.svg.setAttribute("aria-label", this.describe());
  }

  // Shows the values at a time, or the latest.
  point(time) {
    const { times, values, step } = this.history;
    let at = -1;
    if (time !== null) {
      at = times.findIndex((end) => end >= time);
      if (at > 0 && time - times[at - 1] < times[at] - time) at -= 1;
      if (at < 0) at = times.length - 1;
      if (at >= 0 && Math.abs(times[at] - time) > 2 * step) at = -1;
    } else if (times.length && this.to - times[times.length - 1] <= 3 * step) {
      at = times.length - 1;
    }
    this.line.style.display = time === null ? "none" : "";
    if (time !== null) {
      this.line.setAttribute("x1", this.x(time));
      this.line.setAttribute("x2", this.x(time));
    }
    const { lines, format } = this.definition;
    this.shown = lines.map(([label, key]) => {
      const value = at < 0 ? null : values[key]?.[at] ?? null;
      return [label, value === null ? "–" : format(value)];
    });
    const when = document.createElement("span");
    when.textContent = time === null ? "" : clock(time, true);
    this.legend.replaceChildren(...this.shown.map(([label, value], n) => {
      const [item, mark, number] = ["span", "i", "b"].map((name) => document.createElement(name));
      mark.className = `s${n % 5}`;
      number.textContent = value;
      item.append(mark, `${label} `, number);
      return item;
    }), ...(time === null ? [] : [when]));
  }

  select(from, to) {
    const width = from === null ? 0 : Math.abs(this.x(to) - this.x(from));
    this.band.setAttribute("width", width);
    if (width) this.band.setAttribute("x", Math.min(this.x(from), this.x(to)));
  }

  describe() {
    const values = this.shown.map(([label, value]) => `${label} ${value}`).join(", ");
    return `${this.definition.title}, from ${clock(this.from, true)} to ${clock(this.to, true)}: ${values}`;
  }
}
