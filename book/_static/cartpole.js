// Recorded CartPole runs, two laboratories side by side, with rounding and without. No library, no network.
"use strict";

// One long page, as for printing, may load this file twice.
globalThis.CartPole ??= (() => {
  const PER_SECOND = 50; // steps of CartPole-v1
  const LIMIT = 500;
  const METRE = 46; // pixels
  const NAMES = ["A", "B"];
  const SPEEDS = [[0.1, "1/10 speed"], [0.25, "1/4 speed"], [1, "real time"], [4, "4 × speed"]];

  const EDGE = 2.4; // metres
  const TILT = Math.PI / 15; // 12 degrees

  const steps = (run) => run.push.length;
  const over = (run) => steps(run) < LIMIT;

  // A run ends when the pole leans too far or the cart leaves its track, whichever came first.
  function ending(run) {
    const last = steps(run);
    if (!over(run)) return ["reaches", "reached"];
    return Math.abs(run.x[last]) / EDGE > Math.abs(run.angle[last]) / TILT
      ? ["leaves the track at", "left the track at"]
      : ["falls at", "fell at"];
  }

  // Steps in which both still balance and push in different directions.
  function differences([one, two]) {
    const both = Math.min(steps(one), steps(two));
    return Array.from({ length: both }, (_, k) => k).filter((k) => one.push[k] !== two.push[k]);
  }

  // What can be said of a pair at a step: "same", "differ" or "over".
  function status([one, two], step) {
    if (step >= Math.min(steps(one), steps(two))) return "over";
    return one.push[step] === two.push[step] ? "same" : "differ";
  }

  function verdict(pair) {
    const what = pair.rounded ? "codes" : "weights";
    const same = pair.equal === pair.of;
    const policy = same ? "one and the same policy" : "two different policies";
    return (
      `${pair.equal} of ${pair.of} ${what} equal: ${policy}. ` +
      `On ${pair.alike.toLocaleString("en")} of ${pair.asked.toLocaleString("en")} recorded states both push alike.`
    );
  }

  // The first difference is a disagreement about one state; after it each run has a state of its own.
  function history(pair) {
    const [first] = differences(pair.runs);
    const lengths = pair.runs.map((run, i) => `${NAMES[i]} ${ending(run)[0]} step ${steps(run)}`);
    const parting = first === undefined ? "The pushes never differ" : `The pushes first differ at step ${first}`;
    return `${parting}; ${lengths.join(", ")}.`;
  }

  function element(name, attributes = {}, ...children) {
    const svg = ["svg", "path", "line", "rect", "circle", "g"].includes(name);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  // A cart on its track. Its parts stay; move() puts them where they were at a step.
  function cart(name) {
    const ground = element("path", { class: "ground", d: "M4 100H236M9.6 92v16M230.4 92v16" });
    const box = element("rect", { class: "cart", x: -14, y: 84, width: 28, height: 14, rx: 2 });
    const pole = element("line", { class: "pole", x1: 0, y1: 84, x2: 0, y2: 24 });
    const push = element("path", { class: "push" });
    const group = element("g", {}, box, pole, element("circle", { class: "cart", cx: 0, cy: 84, r: 3 }), push);
    const svg = element("svg", { viewBox: "0 0 240 116", role: "img" }, ground, group);
    const label = element("figcaption");
    function move(run, step) {
      const now = Math.min(step, steps(run));
      group.setAttribute("transform", `translate(${(120 + METRE * run.x[now]).toFixed(1)} 0)`);
      pole.setAttribute("transform", `rotate(${((run.angle[now] * 180) / Math.PI).toFixed(2)} 0 84)`);
      const right = run.push[now] === 1;
      push.setAttribute("d", now < steps(run) ? (right ? "M18 91h12l-5 -4m5 4l-5 4" : "M-18 91h-12l5 -4m-5 4l5 4") : "");
      svg.classList.toggle("down", over(run) && now === steps(run));
      const doing = now < steps(run) ? `pushes ${right ? "right" : "left"}` : `${ending(run)[1]} step ${now}`;
      label.textContent = `${name}: ${doing}`;
      svg.setAttribute("aria-label", `Laboratory ${name}'s cart and pole at step ${now}: ${doing}`);
    }
    return { node: element("figure", {}, svg, label), label, move };
  }

  // Two carts, what is known of the pair, and a strip with a mark at every step where the pushes differ.
  function rank(title) {
    const carts = NAMES.map(cart);
    const badge = element("span", { class: "cartpole-badge" });
    const marks = element("path", { class: "marks" });
    const cursor = element("path", { class: "cursor" });
    const strip = element("svg", { class: "cartpole-strip", preserveAspectRatio: "none", role: "img" }, marks, cursor);
    const words = element("p");
    const head = element("div", { class: "cartpole-head" }, element("strong", {}, title), badge);
    const stage = element("div", { class: "cartpole-carts" }, ...carts.map((part) => part.node));
    const node = element("section", { class: "cartpole-pair", "aria-label": title }, head, stage, strip, words);
    function show(pair, length) {
      const apart = differences(pair.runs);
      strip.setAttribute("viewBox", `0 0 ${length} 10`);
      strip.setAttribute("aria-label", `Pushes differ in ${apart.length} of ${length} steps`);
      marks.setAttribute("d", apart.map((k) => `M${k + 0.5} 0v10`).join(""));
      words.textContent = `${verdict(pair)} ${history(pair)}`;
    }
    function move(pair, step) {
      carts.forEach((part, i) => part.move(pair.runs[i], step));
      const now = status(pair.runs, step);
      node.dataset.mark = now;
      badge.textContent = { same: "✓ same push", differ: "✗ pushes differ", over: "● a run is over" }[now];
      cursor.setAttribute("d", `M${step} 0v10`);
    }
    // At the start of a case its verdict, later what the two do.
    function say(step) {
      if (step === 0) return `${title}: ${words.textContent}`;
      return `${title}: ${badge.textContent.slice(2)}; ${carts.map((part) => part.label.textContent).join(", ")}.`;
    }
    return { node, show, move, say };
  }

  function unpack(run) {
    const thousandths = (list) => list.map((value) => value / 1000);
    return { x: thousandths(run.x), angle: thousandths(run.angle), push: [...run.push].map(Number) };
  }

  function start(root) {
    root.dataset.started = "";
    const { cases } = JSON.parse(document.getElementById("cartpole-data").textContent);
    for (const one of cases) for (const pair of one.pairs) pair.runs = pair.runs.map(unpack);
    const quiet = matchMedia("(prefers-reduced-motion: reduce)");
    const state = { case: 0, step: 0, speed: 1, last: null, touched: false };

    const play = element("button", { type: "button" }, "Play");
    const back = element("button", { type: "button", "aria-label": "previous step" }, "◀");
    const on = element("button", { type: "button", "aria-label": "next step" }, "▶");
    const slider = element("input", { id: "cartpole-step", type: "range", min: 0, step: 1 });
    const speed = element("select", { id: "cartpole-speed" });
    for (const [value, text] of SPEEDS) speed.append(element("option", { value }, text));
    speed.value = "1";
    const choice = element("select", { id: "cartpole-case" });
    cases.forEach((one, i) => choice.append(element("option", { value: i }, one.name)));
    const report = element("p", { class: "cartpole-report" });
    const ranks = cases[0].pairs.map((pair) => rank(pair.name));
    const named = (control, name) => {
      const label = element("label", { for: control.id }, name);
      return element("span", { class: "cartpole-control" }, label, control);
    };
    const line = [play, back, named(slider, "step"), on, named(speed, "speed"), named(choice, "shared seed and penalty")];
    root.append(
      element("div", { class: "cartpole-controls" }, ...line),
      ...ranks.map((part) => part.node),
      report,
    );

    const pairs = () => cases[state.case].pairs;
    const length = () => Math.max(...pairs().flatMap((pair) => pair.runs.map(steps)));
    const playing = () => state.last !== null;

    function draw() {
      const step = Math.floor(state.step);
      ranks.forEach((part, i) => part.move(pairs()[i], step));
      slider.value = step;
      const where = `Step ${step} of ${length()} (${(step / PER_SECOND).toFixed(2)} s)`;
      slider.setAttribute("aria-valuetext", where);
      report.textContent = `${where}.`;
      back.disabled = step === 0;
      on.disabled = step === length();
      play.textContent = playing() ? "Pause" : "Play";
    }

    function go(step) {
      state.step = Math.min(Math.max(step, 0), length());
      draw();
    }

    function pause() {
      state.last = null;
      draw();
    }

    function tick(now) {
      if (!playing()) return;
      // A page that was hidden goes on where it stopped.
      const passed = Math.min((now - state.last) / 1000, 0.1);
      state.last = now;
      go(state.step + passed * PER_SECOND * state.speed);
      if (state.step < length()) return requestAnimationFrame(tick);
      pause();
      if (state.touched) say?.();
    }

    function run() {
      if (playing()) return;
      if (state.step >= length()) state.step = 0;
      state.last = performance.now();
      draw();
      requestAnimationFrame(tick);
    }

    function choose(index) {
      state.case = index;
      slider.max = length();
      ranks.forEach((part, i) => part.show(pairs()[i], length()));
      go(0);
    }

    const touch = () => {
      state.touched = true;
      pause();
    };
    play.addEventListener("click", () => {
      const was = playing();
      touch();
      if (!was) run();
    });
    for (const [button, by] of [[back, -1], [on, 1]]) {
      button.addEventListener("click", () => {
        touch();
        go(Math.floor(state.step) + by);
      });
    }
    slider.addEventListener("input", () => {
      const step = Number(slider.value);
      touch();
      go(step);
    });
    speed.addEventListener("change", () => (state.speed = Number(speed.value)));
    choice.addEventListener("change", () => {
      touch();
      choose(Number(choice.value));
    });
    quiet.addEventListener("change", pause);
    choose(0);
    const say = globalThis.announce?.(root, () => {
      if (playing()) return "";
      return [report.textContent, ...ranks.map((part) => part.say(Math.floor(state.step)))].join(" ");
    });
    // It starts by itself when it comes into view, unless the reader wants no motion or has taken over.
    new IntersectionObserver(
      ([entry]) => {
        if (!entry.isIntersecting) pause();
        else if (!quiet.matches && !state.touched) run();
      },
      { threshold: 0.5 },
    ).observe(ranks[0].node);
  }

  return { differences, ending, history, start, status, unpack, verdict };
})();

document.querySelectorAll("#cartpole:not([data-started])").forEach(globalThis.CartPole.start);
