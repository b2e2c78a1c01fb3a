// The start page's playground: two laboratories, one shared random grid. No library, no network.
// Other widgets use its generator, elements and controls.
"use strict";

// One long page, as for printing, loads this file several times.
globalThis.Playground ??= (() => {
  const WINDOW = 2; // the picture shows this much on either side of the truth
  const MAX_DIM = 50;
  const PAIRS = 500;
  const LOG_N = [0, 7];

  // A small seeded generator, so that everybody who opens the page sees the same first picture.
  function generator(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  const normal = (uniform) => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  const vector = (draw, length) => Array.from({ length }, draw);

  // Integral of exp(-t^2) by Simpson's rule: within 1e-12 of the error function.
  function erf(x) {
    const end = Math.min(Math.abs(x), 6);
    const steps = 400;
    const h = end / steps;
    let sum = 1 + Math.exp(-end * end);
    for (let i = 1; i < steps; i++) sum += (i % 2 ? 4 : 2) * Math.exp(-((i * h) ** 2));
    return (Math.sign(x) * 2 * sum * h) / (3 * Math.sqrt(Math.PI));
  }

  // Chance that no edge falls between two means of n readings with unit noise, in any of dim coordinates.
  function agreement(n, width, dim) {
    const x = width / Math.sqrt(2 / n);
    const one = erf(x / Math.SQRT2) - (Math.sqrt(2 / Math.PI) * -Math.expm1((-x * x) / 2)) / x;
    return Math.max(0, one) ** dim;
  }

  const code = (value, offset, width) => Math.floor((value - offset) / width);

  // Share of simulated pairs of laboratories, each pair with a grid of its own, that agree.
  function simulate(n, width, dim, pairs, seed) {
    const uniform = generator(seed);
    const scale = 1 / Math.sqrt(n);
    let same = 0;
    for (let pair = 0; pair < pairs; pair++) {
      let equal = true;
      for (let i = 0; i < dim; i++) {
        const offset = uniform() * width;
        const [a, b] = [normal(uniform) * scale, normal(uniform) * scale];
        equal = code(a, offset, width) === code(b, offset, width) && equal;
      }
      same += equal;
    }
    return same;
  }

  function element(name, attributes = {}, ...children) {
    const svg = ["svg", "path", "line", "rect", "circle", "text", "clipPath", "g"].includes(name);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  const count = (n) => n.toLocaleString("en");

  // Sliders and buttons that set the entries of state and then draw.
  function panel(prefix, state, draw) {
    const controls = element("div", { class: "playground-controls" });
    const buttons = element("div", { class: "playground-buttons" });
    const outputs = [];

    function slider(key, label, [min, max, step], show) {
      const id = `${prefix}-${key}`;
      const input = element("input", { id, type: "range", min, max, step, value: state[key] });
      const output = element("output", { for: id });
      controls.append(element("label", { for: id }, label), input, output);
      input.addEventListener("input", () => {
        state[key] = Number(input.value);
        draw();
      });
      outputs.push(() => {
        output.textContent = show();
        input.setAttribute("aria-valuetext", show());
      });
    }

    function button(label, press) {
      const node = element("button", { type: "button" }, label);
      node.addEventListener("click", () => {
        press(node);
        draw();
      });
      buttons.append(node);
    }

    return { controls, buttons, slider, button, update: () => outputs.forEach((show) => show()) };
  }

  function start(root) {
    root.dataset.started = "";
    const state = { logN: 2, logWidth: Math.log10(0.5), dim: 2, data: 1, grid: 1 };
    const { controls, buttons, slider, button, update } = panel("playground", state, draw);
    const n = () => Math.round(10 ** state.logN);
    const width = () => Number((10 ** state.logWidth).toPrecision(2));
    slider("logN", "samples n", [...LOG_N, 0.05], () => count(n()));
    slider("logWidth", "bin width α", [-1, Math.log10(2), 0.01], () => width().toFixed(2));
    slider("dim", "dimension d", [1, MAX_DIM, 1], () => String(state.dim));
    button("New data", () => (state.data += 1));
    button("New shared grid", () => (state.grid += 1));

    const plane = element("svg", { viewBox: "0 0 300 300", role: "img" });
    const curve = element("svg", { viewBox: "0 0 300 300", role: "img" });
    const verdict = element("figcaption");
    const law = element("figcaption");
    const panels = element("div", { class: "playground-panels" });
    panels.append(element("figure", {}, plane, verdict), element("figure", {}, curve, law));
    root.replaceChildren(controls, buttons, panels);

    function drawPlane() {
      const scale = 1 / Math.sqrt(n());
      const w = width();
      const uniform = generator(1000 + state.data);
      const labs = [0, 1].map(() => vector(() => normal(uniform), MAX_DIM).map((z) => z * scale));
      const offsets = vector(generator(7000 + state.grid), MAX_DIM).map((u) => u * w);
      const codes = labs.map((lab) => lab.map((value, i) => code(value, offsets[i], w)));
      const middle = (c, i) => offsets[i] + (c + 0.5) * w;
      const flat = state.dim === 1;
      const x = (value) => 150 + (150 * value) / WINDOW;
      const y = (value) => (flat ? 150 : 150 - (150 * value) / WINDOW);
      const side = (150 * w) / WINDOW;

      const marks = element("g", { "clip-path": "url(#playground-clip)" });
      for (const c of codes) {
        const corner = flat ? 0 : y(middle(c[1], 1)) - side / 2;
        const height = flat ? 300 : side;
        marks.append(element("rect", { class: "cell", x: x(middle(c[0], 0)) - side / 2, y: corner, width: side, height }));
      }
      for (let k = Math.floor(-WINDOW / w) - 1; k <= WINDOW / w + 1; k++) {
        const [ex, ey] = [x(offsets[0] + k * w), y(offsets[1] + k * w)];
        marks.append(element("line", { class: "edge", x1: ex, x2: ex, y1: 0, y2: 300 }));
        if (!flat) marks.append(element("line", { class: "edge", x1: 0, x2: 300, y1: ey, y2: ey }));
      }
      labs.forEach((lab, which) => {
        const [px, py] = [x(lab[0]), y(lab[1])];
        const [mx, my] = [x(middle(codes[which][0], 0)), y(middle(codes[which][1], 1))];
        const name = which ? "lab-b" : "lab-a";
        marks.append(element("line", { class: name, x1: px, y1: py, x2: mx, y2: my, "stroke-dasharray": "3 3" }));
        marks.append(element("path", { class: "published", d: `M${mx - 6} ${my}l6 -6l6 6l-6 6z` }));
        marks.append(
          which
            ? element("rect", { class: name, x: px - 5, y: py - 5, width: 10, height: 10 })
            : element("circle", { class: name, cx: px, cy: py, r: 6 }),
        );
      });
      marks.append(element("path", { class: "truth", d: "M144 150h12M150 144v12" }));
      const clip = element("clipPath", { id: "playground-clip" }, element("rect", { width: 300, height: 300 }));
      plane.replaceChildren(clip, marks, element("rect", { class: "frame", x: 0.5, y: 0.5, width: 299, height: 299 }));

      let apart = 0;
      for (let i = 0; i < state.dim; i++) apart += codes[0][i] !== codes[1][i];
      const what = apart
        ? `Different answers: an edge falls between the laboratories in ${apart} of ${state.dim} coordinates.`
        : "Same answer: both laboratories publish the same cell in every coordinate.";
      const view = state.dim > 2 ? " The picture shows the first two coordinates." : "";
      verdict.textContent = what + view;
      plane.setAttribute("aria-label", `Two laboratories (circle, square) on a shared grid. ${what}`);
    }

    function drawCurve() {
      const [w, dim] = [width(), state.dim];
      const x = (logN) => 36 + (252 * (logN - LOG_N[0])) / (LOG_N[1] - LOG_N[0]);
      const y = (p) => 258 - 246 * p;
      const points = vector(() => 0, 141).map((_, i) => LOG_N[0] + ((LOG_N[1] - LOG_N[0]) * i) / 140);
      const path = points.map((l, i) => `${i ? "L" : "M"}${x(l).toFixed(1)} ${y(agreement(10 ** l, w, dim)).toFixed(1)}`);
      const exact = agreement(n(), w, dim);
      const found = simulate(n(), w, dim, PAIRS, 31 * state.data + state.grid) / PAIRS;
      const parts = [element("rect", { class: "frame", x: 36, y: 12, width: 252, height: 246 })];
      for (const p of [0, 0.5, 1]) parts.push(element("text", { x: 30, y: y(p) + 4, "text-anchor": "end" }, String(p)));
      for (const l of [0, 2, 4, 6]) {
        parts.push(element("text", { x: x(l), y: 274, "text-anchor": "middle" }, count(10 ** l)));
      }
      parts.push(element("text", { x: 162, y: 294, "text-anchor": "middle" }, "samples n in each laboratory"));
      parts.push(element("line", { class: "edge", x1: x(state.logN), x2: x(state.logN), y1: 12, y2: 258 }));
      parts.push(element("path", { class: "curve", d: path.join("") }));
      parts.push(element("circle", { class: "published", cx: x(state.logN), cy: y(found), r: 5 }));
      curve.replaceChildren(...parts);
      const what =
        `Chance of the same answer: ${exact.toFixed(3)} by the exact law; ` +
        `${found.toFixed(3)} of ${PAIRS} simulated pairs (dot).`;
      law.textContent = what;
      curve.setAttribute("aria-label", `Chance of the same answer against the number of samples. ${what}`);
    }

    function draw() {
      update();
      drawPlane();
      drawCurve();
    }
    draw();
    globalThis.announce?.(root, () => `${verdict.textContent} ${law.textContent}`);
  }

  return { agreement, code, count, element, generator, normal, panel, simulate, start };
})();

if (typeof module === "object") module.exports = globalThis.Playground;
else document.querySelectorAll("#playground:not([data-started])").forEach(globalThis.Playground.start);
