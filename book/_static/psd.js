// Chapter 5's widget: round a symmetric 2 x 2 matrix, mend it by projection. Needs playground.js; no network.
"use strict";

// A matrix [[a, b], [b, c]] is the list [a, b, c].
globalThis.Psd ??= (() => {
  const { code, count, element, generator, normal, panel } = globalThis.Playground;
  const SPREAD = [0.4, 0.3]; // standard deviations of the two inputs
  const VIEW = 0.75; // the picture shows this much on either side of zero
  const GRIDS = 500;
  const WIDTHS = [-2, Math.log10(0.5)];

  // Coordinates in which the positive semidefinite cone is round: s >= hypot(u, b).
  const coordinates = ([a, b, c]) => ({ u: (a - c) / 2, b, s: (a + c) / 2 });

  function eigenvalues(matrix) {
    const { u, b, s } = coordinates(matrix);
    const r = Math.hypot(u, b);
    return [s + r, s - r];
  }

  function project(matrix) {
    const { u, b, s } = coordinates(matrix);
    const r = Math.hypot(u, b);
    if (s >= r) return matrix;
    const half = Math.max(0, s + r) / 2; // the larger eigenvalue is kept, the smaller is set to zero
    return r ? [half * (1 + u / r), (half * b) / r, half * (1 - u / r)] : [0, 0, 0];
  }

  const distance = (x, y) => Math.hypot(x[0] - y[0], Math.SQRT2 * (x[1] - y[1]), x[2] - y[2]);
  const truth = (correlation) => [SPREAD[0] ** 2, correlation * SPREAD[0] * SPREAD[1], SPREAD[1] ** 2];

  // Twice a gamma variable, by the method of Marsaglia and Tsang; at least two degrees of freedom.
  function chiSquare(freedom, uniform) {
    const d = freedom / 2 - 1 / 3;
    for (;;) {
      const x = normal(uniform);
      const v = (1 + x / Math.sqrt(9 * d)) ** 3;
      if (v > 0 && Math.log(1 - uniform()) < (x * x) / 2 + d - d * v + d * Math.log(v)) return 2 * d * v;
    }
  }

  // The mean of x x' over n normal inputs, drawn at once: Bartlett's decomposition of Wishart's law.
  function sample(n, correlation, uniform) {
    const [p, q] = [Math.sqrt(chiSquare(n, uniform)), normal(uniform)];
    const r = Math.sqrt(chiSquare(n - 1, uniform));
    const rest = Math.sqrt(1 - correlation ** 2);
    const first = [SPREAD[0] * p, 0];
    const second = [SPREAD[1] * (correlation * p + rest * q), SPREAD[1] * rest * r];
    return [first[0] ** 2, first[0] * second[0], second[0] ** 2 + second[1] ** 2].map((entry) => entry / n);
  }

  function round(matrix, offsets, width) {
    const codes = matrix.map((entry, i) => code(entry, offsets[i], width));
    return { codes, matrix: codes.map((k, i) => offsets[i] + (k + 0.5) * width) };
  }

  const law = (x, y, width) => x.reduce((p, entry, i) => p * Math.max(0, 1 - Math.abs(entry - y[i]) / width), 1);
  const differing = (x, y) => x.filter((entry, i) => entry !== y[i]).length;
  const grid = (width, uniform) => [0, 1, 2].map(() => uniform() * width);

  // On how many random grids two estimates get the same code, and the first one leaves the cone.
  function simulate(x, y, width, grids, seed) {
    const uniform = generator(seed);
    const found = { same: 0, outside: 0 };
    for (let i = 0; i < grids; i++) {
      const offsets = grid(width, uniform);
      const [one, two] = [x, y].map((matrix) => round(matrix, offsets, width));
      found.same += !differing(one.codes, two.codes);
      found.outside += eigenvalues(one.matrix)[1] < 0;
    }
    return found;
  }

  // Where v' S^-1 v = 1: an ellipse, two branches of a hyperbola, or nothing.
  function shape(matrix) {
    const [large, small] = eigenvalues(matrix);
    if (large < 0) return "";
    const { u, b } = coordinates(matrix);
    const angle = Math.atan2(b, u) / 2;
    const [long, short] = [Math.sqrt(large), Math.sqrt(Math.abs(small))];
    const place = (x, y) => {
      const across = x * Math.cos(angle) - y * Math.sin(angle);
      const up = x * Math.sin(angle) + y * Math.cos(angle);
      return `${(150 + (150 * across) / VIEW).toFixed(1)} ${(150 - (150 * up) / VIEW).toFixed(1)}`;
    };
    const line = (points) => `M${points.join("L")}`;
    const range = (from, to) => Array.from({ length: 73 }, (_, i) => from + ((to - from) * i) / 72);
    if (small >= -1e-12) return line(range(0, 2 * Math.PI).map((t) => place(long * Math.cos(t), short * Math.sin(t))));
    const branch = (sign) => line(range(-4, 4).map((t) => place(sign * long * Math.cosh(t), short * Math.sinh(t))));
    return branch(1) + branch(-1);
  }

  const decimals = (x) => (Math.abs(x) < 5e-5 ? 0 : x).toFixed(4).replace("-", "−");

  function start(root) {
    root.dataset.started = "";
    const state = { logWidth: Math.log10(0.08), logN: 3, correlation: 0.95, data: 1, grid: 1, lab: 0 };
    const { controls, buttons, slider, button, update } = panel("psd", state, draw);
    const n = () => Math.round(10 ** state.logN);
    const width = () => Number((10 ** state.logWidth).toPrecision(2));
    slider("logWidth", "bin width α", [...WIDTHS, 0.01], () => width().toFixed(3));
    slider("logN", "samples n", [1, 7, 0.05], () => count(n()));
    slider("correlation", "correlation", [-1, 1, 0.01], () => state.correlation.toFixed(2).replace("-", "−"));
    button("New samples", () => (state.data += 1));
    button("New shared grid", () => (state.grid += 1));
    button("Show laboratory B", (node) => {
      state.lab = 1 - state.lab;
      node.textContent = `Show laboratory ${state.lab ? "A" : "B"}`;
    });

    const picture = element("svg", { viewBox: "0 0 300 300", role: "img" });
    const curve = element("svg", { viewBox: "0 0 300 300", role: "img" });
    const repair = element("figcaption");
    const agreement = element("figcaption");
    const table = element("table", { class: "psd-table" });
    root.replaceChildren(
      controls,
      buttons,
      element(
        "div",
        { class: "playground-panels" },
        element("figure", {}, picture, repair),
        element("figure", {}, curve, agreement),
      ),
      element("div", { class: "psd-scroll", tabindex: 0, role: "region", "aria-label": "The matrices" }, table),
    );

    function drawMatrices(labs, rounded) {
      const target = truth(state.correlation);
      const raw = rounded[state.lab].matrix;
      const mended = project(raw);
      const small = eigenvalues(raw)[1];
      const outside = small < 0;
      const name = "AB"[state.lab];
      const rows = [
        ["truth", "true second moment", target],
        [state.lab ? "lab-b" : "lab-a", `estimate of ${name}`, labs[state.lab]],
        ["rounded", "rounded", raw],
        ["projected", "projected", mended],
      ];
      const marks = element("g", { "clip-path": "url(#psd-clip)" });
      marks.append(element("path", { class: "edge", d: "M150 0v300M0 150h300" }));
      for (const [key, , matrix] of [...rows].reverse()) marks.append(element("path", { class: key, d: shape(matrix) }));
      if (!eigenvalues(mended)[0]) marks.append(element("circle", { class: "published", cx: 150, cy: 150, r: 5 }));
      const clip = element("clipPath", { id: "psd-clip" }, element("rect", { width: 300, height: 300 }));
      picture.replaceChildren(clip, marks, element("rect", { class: "frame", x: 0.5, y: 0.5, width: 299, height: 299 }));
      const what = outside
        ? `Indefinite: the rounded matrix has the eigenvalue ${decimals(small)}, and its ellipse breaks open. ` +
          "The projection sets that eigenvalue to zero and closes it to a " +
          `${eigenvalues(mended)[0] ? "segment" : "point"}.`
        : "The rounded matrix is positive semidefinite, and the projection leaves it as it is.";
      repair.textContent = what;
      picture.setAttribute("aria-label", `Ellipses of four matrices of laboratory ${name}. ${what}`);

      const names = ["a", "b", "c", "eigenvalues", "error"];
      const head = [element("td"), ...names.map((text) => element("th", { scope: "col" }, text))];
      const body = rows.map(([key, label, matrix]) => {
        const row = element("tr", {}, element("th", { scope: "row" }, element("i", { class: `key ${key}` }), label));
        for (const entry of matrix) row.append(element("td", {}, decimals(entry)));
        const values = eigenvalues(matrix);
        const cell = element("td", {}, values.map(decimals).join(", "));
        if (values[1] < -5e-5) cell.className = "psd-negative";
        row.append(cell, element("td", {}, key === "truth" ? "" : decimals(distance(matrix, target))));
        return row;
      });
      table.replaceChildren(element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
    }

    function drawLaw(labs, rounded) {
      const [x, y] = labs;
      const [w, seed] = [width(), 31 * state.data + state.grid];
      const place = (log) => 36 + (252 * (log - WIDTHS[0])) / (WIDTHS[1] - WIDTHS[0]);
      const height = (p) => 258 - 246 * p;
      const logs = Array.from({ length: 141 }, (_, i) => WIDTHS[0] + ((WIDTHS[1] - WIDTHS[0]) * i) / 140);
      const path = logs.map((l) => `${place(l).toFixed(1)} ${height(law(x, y, 10 ** l)).toFixed(1)}`).join("L");
      const found = simulate(x, y, w, GRIDS, seed);
      const share = found.same / GRIDS;
      const here = place(Math.log10(w));
      const parts = [element("rect", { class: "frame", x: 36, y: 12, width: 252, height: 246 })];
      for (const p of [0, 0.5, 1]) {
        parts.push(element("text", { x: 30, y: height(p) + 4, "text-anchor": "end" }, String(p)));
      }
      for (const value of [0.01, 0.03, 0.1, 0.3]) {
        const at = { x: place(Math.log10(value)), y: 274, "text-anchor": "middle" };
        parts.push(element("text", at, String(value)));
      }
      parts.push(element("text", { x: 162, y: 294, "text-anchor": "middle" }, "bin width α"));
      parts.push(element("line", { class: "edge", x1: here, x2: here, y1: 12, y2: 258 }));
      parts.push(element("path", { class: "curve", d: `M${path}` }));
      parts.push(element("circle", { class: "published", cx: here, cy: height(share), r: 5 }));
      curve.replaceChildren(...parts);
      const apart = differing(rounded[0].codes, rounded[1].codes);
      const [one, two] = rounded.map(({ codes }) => `(${codes.join(", ")})`.replaceAll("-", "−"));
      const what =
        `${apart ? `Different codes in ${apart} of 3 entries` : "Same code"}: A ${one}, B ${two}. ` +
        `Chance of the same code for these two estimates: ${law(x, y, w).toFixed(3)} by the exact law; ` +
        `${share.toFixed(3)} of ${GRIDS} random grids (dot). ` +
        `On ${(found.outside / GRIDS).toFixed(3)} of them A's rounded matrix is indefinite.`;
      agreement.textContent = what;
      curve.setAttribute("aria-label", `Chance of the same code against the bin width. ${what}`);
    }

    function draw() {
      update();
      const uniform = generator(1000 + state.data);
      const labs = [0, 1].map(() => sample(n(), state.correlation, uniform));
      const offsets = grid(width(), generator(7000 + state.grid));
      const rounded = labs.map((matrix) => round(matrix, offsets, width()));
      drawMatrices(labs, rounded);
      drawLaw(labs, rounded);
    }
    draw();
    globalThis.announce?.(root, () => `${repair.textContent} ${agreement.textContent}`);
  }

  return { distance, eigenvalues, law, project, round, sample, shape, simulate, start, truth };
})();

document.querySelectorAll("#psd:not([data-started])").forEach(globalThis.Psd.start);
