// The calculator of chapter 8: every sample size in rrl.theory. No library, no network.
"use strict";

const Calculator = (() => {
  // Sizes run far beyond 10^308, so every formula gives the base-10 logarithm of its answer,
  // written as a product of [base, power] factors; compare each with its namesake in rrl.theory.
  const product = (...factors) => factors.reduce((sum, [base, power]) => sum + power * Math.log10(base), 0);

  function ridge({ d, epsilon, delta, rho, penalty, Y = 1, B = Y / (2 * Math.sqrt(penalty)) }, version) {
    if (version === "sharper") {
      const tail = (B + Y) * Math.sqrt(2 * Math.log(1 / delta));
      return product([(d * Y) / (Math.SQRT2 * rho) + Y + tail, 2], [penalty, -2], [epsilon, -2]);
    }
    const rest = rho - 2 * delta;
    const dimension = version === "printed" ? [d, 3] : [d ** 1.5 + rest, 2];
    const noise = [Math.log(2 / delta), 1];
    return product([25, 1], [B + Y, 2], dimension, noise, [penalty, -2], [epsilon, -2], [rest, -2]);
  }

  function fixedDesign({ d, k, epsilon, delta, rho, norm = 1, Y = 1 }, version) {
    if (version === "sharper") {
      const tail = (1 + Math.sqrt(2 * Math.log(1 / delta))) ** 2;
      return product([k, 1], [d, 1], [Y / epsilon, 2], [Math.max((2 * d ** 2) / rho ** 2, 4 * tail), 1]);
    }
    const penalty = epsilon ** 2 / (4 * k * norm ** 2);
    return ridge({ d, epsilon: epsilon / 2, delta, rho, penalty }, version);
  }

  function secondMoment({ d, t, epsilon, delta, rho }, version) {
    if (version === "sharper") {
      const tail = 1 + Math.sqrt(Math.log(1 / delta));
      return product([t, 2], [(d * Math.sqrt((d * (d + 3)) / 8)) / rho + tail, 2], [epsilon, -2]);
    }
    const rest = rho - 2 * delta;
    const dimension = version === "printed" ? [[8, 1], [d, 8]] : [[2, 1], [d, 2], [d ** 3 + rest, 2]];
    return product([t, 2], ...dimension, [Math.log((2 * d ** 2) / delta), 1], [epsilon, -2], [rest, -2]);
  }

  function lsvi({ d, k, H, epsilon, delta, rho }, version) {
    if (version === "printed") {
      const noise = [Math.log(H / delta), 1];
      return product([40000, 1], [d, 6], [k, 3], [H, 23], [epsilon, -8], [rho - 2 * delta, -2], noise);
    }
    const accuracy = epsilon / (2 * H ** (version === "sharp" ? 1 : 2));
    const norm = 2 * H * Math.sqrt(d);
    const penalty = accuracy ** 2 / (4 * k * norm ** 2);
    const stage = { d, epsilon: accuracy / 2, delta: delta / H, rho: rho / H, penalty };
    return product([H, 1]) + ridge({ ...stage, Y: 2 * H, B: (2 * H) / Math.sqrt(penalty) }, "corrected");
  }

  function ucbChain({ d, H, epsilon, delta, rho }, gram) {
    const L = Math.log(1 / delta);
    const beta = d * H;
    const penalty = (epsilon / (H * d)) ** 2;
    const T = (beta ** 2 * H ** 2 * d * L) / (penalty * epsilon ** 2);
    const error = epsilon / (beta * H);
    const accuracy = {
      printed: product([penalty, 5], [error, 4]),
      "corrected lemmas": product([penalty, 2], [error, 2]),
      "lemma D.3": product([penalty, 1], [error, 2]),
      "both conversions": product([penalty, 6], [error, 4]),
    }[gram];
    return product([T, 2], [d, 8], [L, 1], [rho / (T * H), -2]) - 2 * accuracy;
  }

  function ucbCorrected({ d, H, epsilon, delta, rho }) {
    const beta = d * H;
    const penalty = (epsilon / (H * d)) ** 2;
    const factor = (64 * beta ** 2 * H ** 2 * (1 + 1 / penalty) * d) / epsilon ** 2;
    let T = Math.max(factor, 1);
    for (let i = 0; i < 100; i++) T = Math.max(factor * Math.log1p(T / penalty), 1);
    const gram = product([penalty, 2], [epsilon / 16 / (beta * H), 2], [2, -1]);
    const call = { d, delta: Math.min(delta, rho / 4) / (4 * H * T), rho: rho / (4 * H * T) };
    const moments = secondMoment({ ...call, t: 1, epsilon: 1 }, "corrected") + product([T, 1]) - 2 * gram;
    const weights = ridge({ ...call, epsilon: epsilon / (16 * H), penalty: penalty / T, Y: 1 + H }, "corrected");
    const paths = product([128, 1], [H, 3], [Math.log(6 / delta), 1], [epsilon, -2], [T, -1]);
    return product([T, 1]) + Math.max(moments, weights - product([T, 1]), paths);
  }

  const ucb = (x, version) => (version === "corrected" ? ucbCorrected(x) : ucbChain(x, version));

  function rounding({ d, distance, bin_width }, version) {
    if (version === "printed") return product([d, 1], [distance, 1], [bin_width, -1]);
    if (version === "corrected") return product([d, 0.5], [distance, 1], [bin_width, -1]);
    const each = Math.min(1, distance / Math.sqrt(d) / bin_width); // d equal differences
    return Math.log10(-Math.expm1(d * Math.log1p(-each)));
  }

  const ACCURACY = ["epsilon", "delta", "rho"];
  const FORMULAS = {
    rounding: {
      title: "Lemma 2.1: chance that a rounding differs",
      inputs: ["d", "distance", "bin_width"],
      versions: ["printed", "corrected", "exact law"],
      size: rounding,
      parts: [rounding],
      unit: "",
      remark: "The exact law is for d entries that are all the same distance apart. A bound of 1 or more says nothing.",
    },
    ridge: {
      title: "Theorem 3.1: ridge regression",
      inputs: ["d", "penalty", ...ACCURACY],
      versions: ["printed", "corrected", "sharper"],
      size: ridge,
      parts: [ridge],
      unit: "rows",
      remark: "Labels up to Y = 1, weights up to B = Y / (2√λ). Sharper: chapter 12.",
    },
    fixed_design: {
      title: "Theorem 3.2: fixed design on a core set",
      inputs: ["d", "k", ...ACCURACY],
      versions: ["printed", "corrected", "sharper"],
      size: fixedDesign,
      parts: [fixedDesign, ridge],
      unit: "labels",
      remark:
        "True weights of norm 1, labels up to 1. No core set of a domain that spans d dimensions has k below d. " +
        "Sharper: least squares on the design, chapter 4.",
    },
    second_moment: {
      title: "Theorem 3.3: second moments",
      inputs: ["d", "t", ...ACCURACY],
      versions: ["printed", "corrected", "sharper"],
      size: secondMoment,
      parts: [secondMoment],
      unit: "rows",
      remark: "The sum of the second moments of t distributions. Sharper: chapter 12.",
    },
    lsvi: {
      title: "Theorem 4.1: R-LSVI",
      inputs: ["d", "k", "H", ...ACCURACY],
      versions: ["printed", "corrected", "sharp"],
      size: lsvi,
      parts: [lsvi, ridge],
      unit: "samples",
      remark: "Of all H stages together. Sharp: corrected, with residuals that telescope.",
    },
    ucb: {
      title: "Theorem 4.2: R-LSVI-UCB",
      inputs: ["d", "H", ...ACCURACY],
      versions: ["printed", "both conversions", "corrected lemmas", "lemma D.3", "corrected"],
      size: ucb,
      parts: [ucbChain, ucbCorrected, secondMoment, ridge],
      unit: "trajectories",
      remark:
        "Of all T rounds together. Every hidden constant and logarithm is 1 but in the last row, which has them all. " +
        "The rows between differ in the accuracy of the second moments.",
    },
  };

  // Values that a slider steps through; a field takes any number between least and most.
  const decades = (from, to, digits) =>
    Array.from({ length: to - from }, (_, i) => digits.map((x) => Number(`${x}e${from + i}`))).flat();
  const FINE = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
  const WHOLE = [...Array.from({ length: 20 }, (_, i) => i + 1), 25, 30, 40, 50, 60, 80, ...decades(2, 3, FINE), 1000];
  const INPUTS = {
    d: { label: "d", what: "features", start: 4, least: 1, most: 1e6, whole: true, steps: WHOLE },
    H: { label: "H", what: "horizon", start: 3, least: 1, most: 1e6, whole: true, steps: WHOLE },
    t: { label: "t", what: "distributions", start: 1, least: 1, most: 1e6, whole: true, steps: WHOLE },
    k: { label: "k", what: "core-set constant", start: 4, least: 1, most: 1e9, steps: [...WHOLE, ...decades(3, 6, FINE), 1e6] },
    epsilon: { label: "ε", what: "accuracy", start: 0.1, least: 1e-6, most: 1, steps: [...decades(-3, 0, FINE), 1] },
    delta: { label: "δ", what: "failure", start: 0.01, least: 1e-30, most: 0.49, steps: [...decades(-12, -1, [1, 2, 5]), 0.1, 0.15, 0.2, 0.3, 0.4, 0.45] },
    rho: { label: "ρ", what: "disagreement", start: 0.1, least: 1e-6, most: 0.99, steps: [...decades(-3, 0, FINE), 0.9, 0.95, 0.99] },
    penalty: { label: "λ", what: "penalty", start: 0.1, least: 1e-12, most: 1e3, steps: [...decades(-6, 1, FINE), 10] },
    distance: { label: "Δ", what: "distance of the estimates", start: 0.01, least: 1e-12, most: 1e3, steps: [...decades(-6, 0, FINE), 1] },
    bin_width: { label: "α", what: "bin width", start: 0.2, least: 1e-12, most: 1e3, steps: [...decades(-3, 1, FINE), 10] },
  };

  // What is wrong with the inputs, or "".
  function fault(formula, values) {
    for (const name of FORMULAS[formula].inputs) {
      const { label, least, most, whole } = INPUTS[name];
      const x = values[name];
      if (!(x >= least && x <= most)) return `${label} must lie between ${least} and ${most}.`;
      if (whole && !Number.isInteger(x)) return `${label} must be a whole number.`;
    }
    if (values.rho <= 2 * values.delta && FORMULAS[formula].inputs.includes("rho")) return "ρ must exceed 2δ (erratum E9).";
    return "";
  }

  const log10 = (formula, version, values) => FORMULAS[formula].size(values, version);

  const raise = (n) => String(n).replace(/[-\d]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);

  // A number from its logarithm: 0.0123, 4,321 or 5.20 × 10⁷³.
  function show(digits) {
    if (digits > -4 && digits < 3) return String(Number((10 ** digits).toPrecision(3)));
    if (digits >= 3 && digits < 6) return Math.round(10 ** digits).toLocaleString("en");
    let power = Math.floor(digits);
    let digit = (10 ** (digits - power)).toFixed(2);
    if (digit === "10.00") [digit, power] = ["1.00", power + 1];
    return `${digit} × 10${raise(power)}`;
  }

  const RATE = 6; // a million samples a second
  const YEAR = 365.25 * 86400;
  const UNITS = [
    ["ages of the universe", 13.8e9 * YEAR, 2], // 13.8 billion years
    ["years", YEAR, 2],
    ["days", 86400, 2],
    ["hours", 3600, 2],
    ["minutes", 60, 2],
    ["seconds", 1, 1],
    ["ms", 1e-3, 1],
  ];

  // How long so many samples take, in the largest unit that fits.
  function duration(digits) {
    const seconds = digits - RATE;
    const [name, length] = UNITS.find(([, size, least]) => seconds >= Math.log10(size * least)) || [];
    return name ? `${show(seconds - Math.log10(length))} ${name}` : "less than 1 ms";
  }

  function element(name, attributes = {}, ...children) {
    const drawn = ["svg", "line", "path", "text"].includes(name);
    const made = drawn ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // root: where the controls go. measured: [{formula, inputs, log10, what}] as the chapter measured them.
  function start(root, measured) {
    const values = Object.fromEntries(Object.entries(INPUTS).map(([name, input]) => [name, input.start]));
    const chooser = element("select", { id: "calculator-formula" });
    for (const [key, { title }] of Object.entries(FORMULAS)) chooser.append(element("option", { value: key }, title));
    chooser.value = "ridge";
    const controls = element("div", { class: "calculator-controls" });
    const message = element("p", { class: "calculator-message" });
    const results = element("table", {}, element("caption", {}));
    const ladder = element("svg", { role: "img", class: "calculator-ladder" });
    const known = element("div", { class: "calculator-known" });
    const source = element("pre");
    const inside = element("details", {}, element("summary", {}, "The formula as this page computes it"), source);
    root.replaceChildren(
      element("label", { for: "calculator-formula" }, "Formula"), chooser, controls, message,
      element("div", { class: "calculator-results" }, results), ladder, known, inside,
    );

    const nearest = (steps, x) =>
      steps.reduce((best, s, i) => (Math.abs(Math.log(s / x)) < Math.abs(Math.log(steps[best] / x)) ? i : best), 0);

    function addControl(name) {
      const { label, what, least, most, whole, steps } = INPUTS[name];
      const id = `calculator-${name}`;
      const slider = element("input", { id, type: "range", min: 0, max: steps.length - 1, step: 1 });
      const field = element("input", {
        id: `${id}-number`, type: "number", min: least, max: most, step: whole ? 1 : "any",
        "aria-label": `${label}, ${what}, as a number`,
      });
      const place = () => {
        slider.value = nearest(steps, values[name]);
        slider.setAttribute("aria-valuetext", `${label} = ${values[name]}`);
      };
      slider.addEventListener("input", () => {
        values[name] = steps[slider.value];
        field.value = values[name];
        field.removeAttribute("aria-invalid");
        place();
        draw();
      });
      field.addEventListener("input", () => {
        values[name] = field.value === "" ? NaN : Number(field.value);
        if (values[name] > 0) place();
        draw();
      });
      field.value = values[name];
      place();
      controls.append(element("label", { for: id }, element("b", {}, label), ` ${what}`), slider, field);
    }

    function choose() {
      controls.replaceChildren();
      FORMULAS[chooser.value].inputs.forEach(addControl);
      source.textContent = FORMULAS[chooser.value].parts.map(String).join("\n\n").replace(/^ {2}/gm, "");
      draw();
    }

    // Measurements of this formula, and whether they were made at just these values.
    const here = () => measured.filter((m) => m.formula === chooser.value);
    const matches = (m) => Object.entries(m.inputs).every(([name, x]) => Math.abs(values[name] / x - 1) < 1e-9);

    function draw() {
      const { inputs, versions, unit, remark } = FORMULAS[chooser.value];
      const wrong = fault(chooser.value, values);
      message.textContent = wrong || remark;
      message.classList.toggle("calculator-wrong", wrong !== "");
      for (const name of inputs) {
        const field = controls.querySelector(`#calculator-${name}-number`);
        const { least, most, whole } = INPUTS[name];
        const good = values[name] >= least && values[name] <= most && (!whole || Number.isInteger(values[name]));
        field.setAttribute("aria-invalid", String(!good));
      }
      const seen = wrong ? [] : here().filter(matches);
      const asked = wrong ? [] : versions.map((v) => ({ name: v, digits: log10(chooser.value, v, values) }));
      const rows = [...asked, ...seen.map((m) => ({ name: m.what, digits: m.log10, measured: true }))];
      const heads = ["version", unit || "probability", "log₁₀", ...(unit ? ["time at 10⁶ a second"] : [])];
      if (seen.length) heads.push("over the measured");
      const enough = Math.max(...seen.map((m) => m.log10));
      const line = ({ name, digits, measured: own }) => {
        const cells = [element("td", {}, show(digits)), element("td", {}, digits.toFixed(2))];
        if (unit) cells.push(element("td", { class: "calculator-words" }, duration(digits)));
        if (seen.length) cells.push(element("td", {}, own ? "" : show(digits - enough)));
        cells.forEach((cell, i) => cell.setAttribute("data-head", heads[i + 1])); // for narrow pages
        return element("tr", {}, element("th", { scope: "row" }, name), ...cells);
      };
      const header = element("tr", {}, ...heads.map((h) => element("th", { scope: "col" }, h)));
      results.replaceChildren(
        element("caption", {}, FORMULAS[chooser.value].title),
        element("thead", {}, header),
        element("tbody", {}, ...rows.map(line)),
      );
      ladder.style.display = unit && !wrong ? "" : "none";
      if (unit && !wrong) drawLadder(rows);
      known.replaceChildren(...here().map(offer));
    }

    function offer(m) {
      const set = Object.entries(m.inputs).map(([name, x]) => `${INPUTS[name].label} = ${Number(x.toPrecision(4))}`);
      const at = matches(m);
      const button = element("button", { type: "button" }, at ? "set" : "set these values");
      button.disabled = at;
      button.addEventListener("click", () => {
        Object.assign(values, m.inputs);
        choose();
        controls.querySelector("input").focus(); // this button is drawn anew
      });
      return element("p", {}, `${m.what}, ${set.join(", ")}: enough were ${show(m.log10)}. `, button);
    }

    // Where the sizes stand on a line of powers of ten, with times as landmarks.
    function drawLadder(rows) {
      const most = Math.max(26, ...rows.map((r) => r.digits)) * 1.04;
      const wide = Math.max(300, Math.min(640, root.clientWidth - 32)); // letters keep their size on a phone
      ladder.setAttribute("viewBox", `0 0 ${wide} 110`);
      const x = (digits) => 10 + ((wide - 20) * Math.max(0, digits)) / most;
      const parts = [element("line", { class: "axis", x1: 10, x2: wide - 10, y1: 60, y2: 60 })];
      const marks = [[RATE, "1 second"], [RATE + Math.log10(YEAR), "1 year"], [RATE + Math.log10(13.8e9 * YEAR), "age of the universe"]];
      for (const [digits, name] of most < wide / 10 ? marks : marks.slice(2)) {
        const last = x(digits) > wide - 80;
        parts.push(element("line", { class: "mark", x1: x(digits), x2: x(digits), y1: 60, y2: 74 }));
        const y = last && wide < 400 ? 106 : 90; // on a phone the last two names would touch
        parts.push(element("text", { x: x(digits), y, "text-anchor": last ? "end" : "middle" }, name));
      }
      rows.forEach(({ digits, measured: own }) => {
        const at = x(digits);
        const shape = own ? `M${at - 6} 60l6 -7l6 7l-6 7z` : `M${at} 46v28`;
        parts.push(element("path", { class: own ? "seen" : "asked", d: shape }));
      });
      const sorted = [...rows].sort((a, b) => a.digits - b.digits);
      const ends = sorted.length > 1 ? [sorted[0], sorted.at(-1)] : sorted;
      ends.forEach(({ name, digits }, i) => {
        const anchor = i ? "end" : "start";
        const at = i ? Math.min(Math.max(x(digits) + 8, wide / 2), wide) : Math.min(x(digits) - 8, wide / 2 - 80);
        parts.push(element("text", { x: Math.max(at, 0), y: i ? 16 : 36, "text-anchor": anchor }, `${name}: 10${raise(Math.round(digits))}`));
      });
      ladder.replaceChildren(...parts);
      const words = rows.map(({ name, digits }) => `${name} 10 to the ${digits.toFixed(1)}`);
      ladder.setAttribute("aria-label", `Line of powers of ten: ${words.join(", ")}.`);
    }

    chooser.addEventListener("change", choose);
    window.addEventListener("resize", draw);
    choose();
    const spoken = (digits) => (digits > -4 && digits < 6 ? show(digits) : `10 to the ${digits.toFixed(1)}`);
    globalThis.announce?.(root, () => {
      const { title, versions, unit } = FORMULAS[chooser.value];
      const sizes = versions.map((v) => `${v} ${spoken(log10(chooser.value, v, values))}`);
      return fault(chooser.value, values) || `${title}: ${sizes.join(", ")} ${unit}`.trim() + ".";
    });
  }

  return { FORMULAS, INPUTS, duration, fault, log10, show, start };
})();

if (typeof module === "object") module.exports = Calculator;
else {
  const measured = document.getElementById("calculator-measured");
  Calculator.start(document.getElementById("calculator"), measured ? JSON.parse(measured.textContent) : []);
}
