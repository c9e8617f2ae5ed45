// Curves over time. The pointer shows values, a click moves the time of the player.
const LINE_COLOURS = { world: "#e8590c", predicted: "#1971c2" };
const FURTHER_COLOURS = ["#343a40", "#7048e8"];
const BOUND_COLOUR = "#e03131";
const [LEFT, TOP, BOTTOM] = [44, 7, 18];  // margins of the axes [px]

// Decode the curves of a run: low and high hold the extremes of each interval, one array for each choice.
function decodeCurves({ t, panels }) {
  const times = floats(t);
  const split = (text, choices) => {
    const all = floats(text);
    return choices.map((_, k) => all.subarray(k * times.length, (k + 1) * times.length));
  };
  return {
    t: times,
    panels: panels.map((panel) => ({
      ...panel,
      lines: panel.lines.map(({ label, low, high }) => ({
        label, low: split(low, panel.choices), high: split(high ?? low, panel.choices),
      })),
    })),
  };
}

// Return the index of the last time that is not after `now`.
function rowAt(t, now) {
  let found = 0;
  for (let low = 0, high = t.length - 1; low <= high;) {
    const middle = (low + high) >> 1;
    if (t[middle] <= now + 1e-6) { found = middle; low = middle + 1; } else high = middle - 1;
  }
  return found;
}

// Return a step of 1, 2 or 5 times a power of ten that divides a span into at most `most` parts.
function roundStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return power * [1, 2, 5, 10].find((step) => step * power * most >= span * (1 - 1e-9));
}

const multiples = (low, high, step) => {
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, k) => (first + k) * step);
};
const powers = (low, high) => multiples(Math.log10(low), Math.log10(high), 1).map((exponent) => 10 ** exponent);
const number = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : +value.toPrecision(3)).toString().replace("-", "−");

class Plot {
  // sources: [{ curves, label }]; the first has this plot's panel, the lines of the others are dashed
  constructor(panel, sources, changed) {
    this.panel = panel;
    this.sources = sources;
    this.choice = 0;
    this.element = document.createElement("section");
    const unit = panel.unit ? ` [${panel.unit}]` : "";
    const head = document.createElement("header");
    head.append(Object.assign(document.createElement("b"), { textContent: panel.title + unit }));
    if (panel.choices.length > 1) {
      this.select = document.createElement("select");
      this.select.setAttribute("aria-label", panel.title);
      panel.choices.forEach((name, k) => this.select.add(new Option(name, k)));
      this.select.onchange = () => { this.choice = +this.select.value; changed(); };
      head.append(this.select);
    }
    this.legend = document.createElement("p");
    const area = Object.assign(document.createElement("div"), { className: "area" });
    this.canvas = document.createElement("canvas");
    this.cursor = document.createElement("i");
    this.pointer = Object.assign(document.createElement("i"), { className: "hover", hidden: true });
    area.append(this.canvas, this.pointer, this.cursor);
    this.element.append(head, this.legend, area);
  }

  // Return the lines of the choice in all runs: { label, colour, dashed, t, low, high }.
  lines() {
    const name = this.panel.choices[this.choice];
    return this.sources.flatMap(({ curves, label }, s) => {
      const panel = curves.panels.find((one) => one.title === this.panel.title);
      const k = panel ? panel.choices.indexOf(name) : -1;
      if (k < 0) return [];
      return panel.lines.map((line, i) => ({
        label: s ? `${label}: ${line.label}` : line.label, dashed: s > 0, t: curves.t, low: line.low[k], high: line.high[k],
        colour: LINE_COLOURS[line.label] ?? FURTHER_COLOURS[i % FURTHER_COLOURS.length],
      }));
    });
  }

  range() {
    let [low, high] = this.panel.log ? [Infinity, 0] : [0, 0];
    for (const line of this.shown) {
      for (let i = 0; i < line.t.length; i++) {
        if (line.low[i] < low) low = line.low[i];
        if (line.high[i] > high) high = line.high[i];
      }
    }
    for (const bound of this.panel.bounds[this.choice]) {
      if (bound !== null) { low = Math.min(low, bound); high = Math.max(high, bound); }
    }
    if (this.panel.log) return [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high))];
    const spare = 0.06 * (high - low || 1);
    return [low < 0 ? low - spare : 0, high + spare];
  }

  draw(span) {
    this.span = span;
    this.shown = this.lines();
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const scale = window.devicePixelRatio || 1;
    [this.canvas.width, this.canvas.height, this.width] = [width * scale, height * scale, width];
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    const [low, high] = this.range();
    const place = this.panel.log ? Math.log10 : (value) => value;
    const y = (value) => TOP + (height - TOP - BOTTOM) * (place(high) - place(value)) / (place(high) - place(low));
    this.axes(pen, [low, high], y, height);
    for (const line of this.shown) this.curve(pen, line, y);
    pen.setLineDash([]);
    pen.strokeStyle = BOUND_COLOUR;
    for (const bound of this.panel.bounds[this.choice]) if (bound !== null) this.level(pen, y(bound));
  }

  axes(pen, [low, high], y, height) {
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = "#495057";
    pen.strokeStyle = "#dee2e6";
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const value of this.panel.log ? powers(low, high) : multiples(low, high, roundStep(high - low, 4))) {
      this.level(pen, y(value));
      pen.fillText(number(value), LEFT - 5, y(value));
    }
    pen.textAlign = "center";
    const step = roundStep(this.span[1] - this.span[0] || 1, 6);
    for (const time of multiples(...this.span, step)) {
      pen.fillText(`${number(time)} s`, Math.min(this.x(time), this.width - 12), height - BOTTOM / 2);
    }
  }

  level(pen, y) {
    pen.beginPath();
    pen.moveTo(LEFT, y);
    pen.lineTo(this.width, y);
    pen.stroke();
  }

  curve(pen, { t, low, high, colour, dashed }, y) {
    pen.strokeStyle = colour;
    pen.globalAlpha = dashed ? 0.75 : 1;
    pen.setLineDash(dashed ? [5, 3] : []);
    pen.beginPath();
    for (let i = 0, open = false; i < t.length; i++) {
      if (Number.isNaN(low[i])) { open = false; continue; }
      const x = this.x(t[i]);
      if (open) pen.lineTo(x, y(low[i])); else pen.moveTo(x, y(low[i]));
      if (high[i] !== low[i]) pen.lineTo(x, y(high[i]));
      open = true;
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  x(time) {
    return LEFT + (this.width - LEFT - 1) * (time - this.span[0]) / (this.span[1] - this.span[0] || 1);
  }

  time(x) {
    const share = Math.min(Math.max((x - LEFT) / (this.width - LEFT - 1), 0), 1);
    return this.span[0] + share * (this.span[1] - this.span[0]);
  }

  // Move the lines of the player's time and of the pointer, and write the values at the pointer or else at the time.
  mark(time, hover) {
    this.cursor.style.left = `${this.x(time)}px`;
    this.pointer.hidden = hover === null;
    if (hover !== null) this.pointer.style.left = `${this.x(hover)}px`;
    this.legend.replaceChildren(...this.shown.map((line) => {
      const text = document.createElement("span");
      text.style.color = line.colour;
      text.textContent = `${line.dashed ? "┄" : "━"} ${line.label} ${this.value(line, hover ?? time)}`;
      return text;
    }));
  }

  value({ t, low, high }, time) {
    const i = rowAt(t, time);
    if (Number.isNaN(low[i]) || time > t[t.length - 1] + 0.1) return "–";
    const [least, most] = [number(low[i]), number(high[i])];
    return least === most ? least : `${least} to ${most}`;
  }
}

// All plots of a run, over its whole time. choose: is called with the time of a click
class Plots {
  constructor(element, choose) {
    this.element = element;
    this.choose = choose;
    this.plots = [];
    this.kept = {};  // choices, by title
    [this.time, this.hover] = [0, null];
  }

  // Show the curves of a run, and with dashed lines those of another.
  load(run, other = null) {
    for (const plot of this.plots) this.kept[plot.panel.title] = plot.panel.choices[plot.choice];
    const sources = [run, other].filter((one) => one?.curves).map(({ curves, label }) => ({ curves: decodeCurves(curves), label }));
    this.span = sources.length ? [sources[0].curves.t[0], run.film.t[run.film.t.length - 1]] : [0, 0];
    this.plots = run.curves ? sources[0].curves.panels.map((panel) => new Plot(panel, sources, () => this.draw())) : [];
    for (const plot of this.plots) {
      plot.choice = Math.max(plot.panel.choices.indexOf(this.kept[plot.panel.title]), 0);
      if (plot.select) plot.select.value = plot.choice;
      this.listen(plot);
    }
    this.element.replaceChildren(...this.plots.map((plot) => plot.element));
  }

  listen(plot) {
    const { canvas } = plot;
    canvas.onpointermove = (event) => {
      this.hover = plot.time(event.offsetX);
      if (event.buttons) this.choose(this.hover);
      this.mark(this.time);
    };
    canvas.onpointerleave = () => { this.hover = null; this.mark(this.time); };
    canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); this.choose(plot.time(event.offsetX)); };
  }

  draw() {
    if (this.element.hidden) return;
    for (const plot of this.plots) plot.draw(this.span);
    this.mark(this.time);
  }

  mark(time) {
    this.time = time;
    if (!this.element.hidden) for (const plot of this.plots) if (plot.shown) plot.mark(time, this.hover);
  }
}
