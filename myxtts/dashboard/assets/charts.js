"use strict";
// Line charts and stacked bands in SVG. A chart knows lines and numbers, not runs.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 210;
const MARGIN = { left: 56, right: 12, top: 8, bottom: 24 };
const LARGEST = 1e30;
// A few points, such as those of evaluations, are shown as they are.
const FEWEST_SMOOTHED = 30;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function swatch(colour) {
  const made = element("span", { class: "swatch", "aria-hidden": "true" });
  made.style.color = `var(--${colour})`;
  return made;
}

// An exponential mean that does not lag behind at the start.
function smoothed(values, weight) {
  let mean = 0;
  let total = 0;
  return values.map((value) => {
    mean = mean * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return mean / total;
  });
}

function ticks(low, high, most) {
  const range = high - low;
  if (!(range > 0) || range > LARGEST) return [low];
  const power = 10 ** Math.floor(Math.log10(range / most));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => range / one <= most);
  const found = [];
  for (let place = Math.ceil(low / step - 1e-9); place * step <= high + step * 1e-9; place += 1) {
    found.push(Number((place * step).toPrecision(12)));
    if (found.length > 20) break;
  }
  return found;
}

function scale(low, high, from, to, isLogarithmic) {
  const along = isLogarithmic ? Math.log10 : (value) => value;
  const first = along(low);
  const range = along(high) - first || 1;
  return (value) => from + ((along(value) - first) / range) * (to - from);
}

class Chart {
  constructor(title, hint) {
    this.title = element("h3");
    this.hint = element("span", { class: "hint" });
    this.picture = drawn("svg", { role: "img", tabindex: "0" });
    this.readout = element("p", { class: "readout" });
    this.figure = element("figure", {}, element("figcaption", {}, this.title, this.hint), this.picture, this.readout);
    this.titleOf = title;
    this.hintOf = hint;
    this.place = null;
    this.picture.addEventListener("pointermove", (event) => this.pointAt(event));
    this.picture.addEventListener("pointerleave", () => this.choose(null));
    // Read out to those who are at this chart, not whenever a run logs a line.
    this.picture.addEventListener("focus", () => this.readout.setAttribute("aria-live", "polite"));
    this.picture.addEventListener("blur", () => this.readout.removeAttribute("aria-live"));
    this.picture.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.draw()).observe(this.figure);
  }

  show(content) {
    this.content = content;
    this.title.textContent = this.titleOf();
    this.hint.textContent = this.hintOf ? this.hintOf() : "";
    this.draw();
  }

  // Places on the horizontal axis that the cursor can be at.
  get places() {
    const all = new Set();
    for (const line of this.content.lines) for (const x of line.xs) all.add(x);
    return [...all].sort((one, other) => one - other);
  }

  draw() {
    if (!this.content || !this.figure.clientWidth) return;
    const width = this.picture.clientWidth || 320;
    this.picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.picture.replaceChildren();
    this.measure(width);
    this.drawAxes(width);
    this.drawContent();
    this.picture.setAttribute("aria-label", this.summary());
    this.drawCursor();
  }

  measure(width) {
    const right = width - MARGIN.right;
    const xs = this.content.lines.flatMap((line) => [line.xs[0], line.xs.at(-1)]);
    this.low = Math.min(0, ...xs);
    this.high = Math.max(1e-9, ...xs);
    this.x = scale(this.low, this.high, MARGIN.left, right);
    const [bottom, top] = this.range();
    this.bottom = bottom;
    this.top = top;
    this.y = scale(bottom, top, HEIGHT - MARGIN.bottom, MARGIN.top, this.isLogarithmic);
  }

  get isLogarithmic() {
    if (!this.content.logarithmic) return false;
    return this.content.lines.every((line) => line.values.every((value) => value > 0));
  }

  range() {
    let low = Infinity;
    let high = -Infinity;
    const levels = (this.content.levels ?? []).map((level) => level.value);
    for (const values of [...this.content.lines.map((line) => line.values), levels]) {
      for (const value of values) {
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    if (this.content.fromZero) low = Math.min(0, low);
    if (this.content.fromZero && this.content.toOne) high = Math.max(1, high);
    if (low === high) return this.isLogarithmic ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
    if (this.isLogarithmic) return [low * 0.95, high * 1.05];
    const room = (high - low) * 0.05;
    return [this.content.fromZero && low === 0 ? 0 : low - room, high + room];
  }

  yTicks() {
    if (!this.isLogarithmic) return ticks(this.bottom, this.top, 6);
    const found = [];
    for (let power = Math.floor(Math.log10(this.bottom)); power <= Math.log10(this.top) && found.length < 40; power += 1) {
      for (const factor of [1, 2, 5]) found.push(factor * 10 ** power);
    }
    const inside = found.filter((value) => value >= this.bottom && value <= this.top);
    return inside.length >= 2 ? inside.slice(0, 9) : ticks(this.bottom, this.top, 5).filter((value) => value > 0);
  }

  drawAxes(width) {
    for (const value of this.yTicks()) {
      const y = this.y(value);
      this.picture.append(
        drawn("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }),
        drawn("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }, this.content.isShare ? percent(value) : number(value)),
      );
    }
    for (const value of ticks(this.low, this.high, Math.max(2, Math.floor(width / 110)))) {
      const x = this.x(value);
      const anchor = x > width - 40 ? "end" : x < MARGIN.left + 10 ? "start" : "middle";
      this.picture.append(drawn("text", { x, y: HEIGHT - 6, "text-anchor": anchor }, number(value)));
    }
  }

  drawContent() {
    for (const level of this.content.levels ?? []) {
      const y = this.y(level.value);
      const line = drawn("line", { class: "level", x1: MARGIN.left, x2: this.x(this.high), y1: y, y2: y });
      line.style.stroke = `var(--${level.colour})`;
      this.picture.append(line);
    }
    for (const line of this.content.lines) {
      const weight = this.content.smoothing ?? 0;
      if (weight && line.values.length >= FEWEST_SMOOTHED) {
        this.drawLine(line, line.values, "raw");
        this.drawLine(line, smoothed(line.values, weight), "curve");
      } else {
        this.drawLine(line, line.values, "curve");
      }
    }
  }

  drawLine(line, values, kind) {
    const path = values.map((value, place) => `${place ? "L" : "M"}${this.x(line.xs[place]).toFixed(1)} ${this.y(value).toFixed(1)}`).join("");
    const curve = drawn("path", { class: kind, d: path });
    curve.style.stroke = `var(--${line.colour})`;
    if (line.dashed) curve.style.strokeDasharray = "4 3";
    this.picture.append(curve);
    if (values.length <= 30 && kind === "curve") {
      values.forEach((value, place) => this.dot(line.xs[place], value, line.colour, 2.5));
    }
  }

  dot(x, value, colour, radius) {
    const dot = drawn("circle", { cx: this.x(x).toFixed(1), cy: this.y(value).toFixed(1), r: radius });
    dot.style.fill = `var(--${colour})`;
    this.picture.append(dot);
    return dot;
  }

  // The value of a line at, or the last one before, a place.
  valueAt(line, x) {
    let first = 0;
    let end = line.xs.length;
    while (first < end) {
      const middle = (first + end) >> 1;
      if (line.xs[middle] <= x) first = middle + 1;
      else end = middle;
    }
    return first ? line.values[first - 1] : null;
  }

  drawCursor() {
    for (const old of this.picture.querySelectorAll(".at")) old.remove();
    const at = this.place;
    const x = at ?? this.high;
    const said = [];
    if (at !== null) {
      this.picture.append(drawn("line", { class: "cursor at", x1: this.x(at), x2: this.x(at), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
      said.push(element("span", {}, `${this.content.unit} ${number(at)}`));
    }
    for (const [name, value, colour] of this.values(x)) {
      if (at !== null && this.marks) this.dot(at, value, colour, 4).classList.add("at");
      const shown = this.content.isShare ? percent(value) : number(value);
      said.push(element("span", {}, swatch(colour), element("bdi", {}, name), ` ${shown}`));
    }
    const text = said.map((one) => one.textContent).join(" ");
    if (text !== this.said || this.readout.childElementCount !== said.length) this.readout.replaceChildren(...said);
    this.said = text;
  }

  get marks() {
    return true;
  }

  values(x) {
    return this.content.lines
      .map((line) => [line.name, this.valueAt(line, x), line.colour])
      .concat((this.content.levels ?? []).map((level) => [level.name, level.value, level.colour]))
      .filter(([, value]) => value !== null);
  }

  summary() {
    const values = this.values(this.high).map(([name, value]) => `${name} ${this.content.isShare ? percent(value) : number(value)}`);
    return `${this.titleOf()}, ${this.content.unit} ${number(this.high)}: ${values.join(", ")}`;
  }

  choose(place) {
    if (place === this.place) return;
    this.place = place;
    this.drawCursor();
  }

  pointAt(event) {
    if (!this.content) return;
    const x = event.clientX - this.picture.getBoundingClientRect().left;
    let nearest = null;
    for (const place of this.places) {
      if (nearest === null || Math.abs(this.x(place) - x) < Math.abs(this.x(nearest) - x)) nearest = place;
    }
    this.choose(nearest);
  }

  press(event) {
    const places = this.places;
    const now = this.place === null ? places.length - 1 : places.indexOf(this.place);
    const far = Math.max(1, Math.round(places.length / 20));
    const moves = { ArrowLeft: now - 1, ArrowRight: now + 1, PageDown: now - far, PageUp: now + far, Home: 0, End: places.length - 1 };
    if (event.key === "Escape") this.choose(null);
    if (!Object.hasOwn(moves, event.key)) return;
    event.preventDefault();
    this.choose(places[Math.min(places.length - 1, Math.max(0, moves[event.key]))]);
  }
}

// Shares that add up to the whole, the first line at the bottom.
class Band extends Chart {
  range() {
    return [0, 1];
  }

  get marks() {
    return false;
  }

  values(x) {
    return super.values(x).filter(([, share]) => share >= 0.0005);
  }

  drawContent() {
    const xs = this.content.lines[0].xs;
    // An interval reaches back to the one before it.
    const starts = [this.low, ...xs.slice(0, -1)];
    let below = xs.map(() => 0);
    for (const line of this.content.lines) {
      const above = below.map((value, place) => Math.min(1, value + line.values[place]));
      const there = above.map((value, place) => `${this.x(starts[place]).toFixed(1)} ${this.y(value).toFixed(1)} ${this.x(xs[place]).toFixed(1)} ${this.y(value).toFixed(1)}`);
      const back = below.map((value, place) => `${this.x(xs[place]).toFixed(1)} ${this.y(value).toFixed(1)} ${this.x(starts[place]).toFixed(1)} ${this.y(value).toFixed(1)}`);
      const area = drawn("polygon", { points: [...there, ...back.reverse()].join(" ") });
      area.style.fill = `var(--${line.colour})`;
      this.picture.append(area);
      below = above;
    }
  }
}
