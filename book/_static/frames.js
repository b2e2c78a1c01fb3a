// Frames of recorded states, with what every run would do there. No library, no network.
"use strict";

// A page may load this file once for each of its viewers.
globalThis.Frames ??= (() => {
  const SWIPE = 30; // pixels of a finger's way that count as a swipe

  // Actions are kept as bits: all best actions of a run in a frame. The lowest is chosen, or the first in an order.
  const chosen = (mask, order) => order?.find((i) => (mask >> i) & 1) ?? 31 - Math.clz32(mask & -mask);
  const members = (mask, count) => Array.from({ length: count }, (_, i) => i).filter((i) => (mask >> i) & 1);

  // What the runs do in a frame; `orders` has for each run the order in which it takes tied actions.
  function status(masks, orders) {
    if (new Set(masks.map((mask, run) => chosen(mask, orders?.[run]))).size > 1) return "differ";
    return masks.some((mask) => mask & (mask - 1)) ? "tie" : "agree";
  }

  function words(mask, actions, many, order) {
    const taken = chosen(mask, order);
    const others = members(mask, actions.length)
      .filter((i) => i !== taken)
      .map((i) => actions[i]);
    const first = actions[taken];
    if (!others.length) return [first, ""];
    return [first, `tied with ${others.length <= many ? others.join(", ") : `${others.length} others`}`];
  }

  // Numbers of the frames in which the runs of a panel differ; "any": of some panel; "all": every frame.
  function select(panels, which) {
    const frames = panels[0].best.map((_, frame) => frame);
    if (which === "all") return frames;
    const asked = which === "any" ? panels : panels.filter((panel) => panel.name === which);
    return frames.filter((frame) => asked.some((panel) => status(panel.best[frame], panel.orders?.[frame]) === "differ"));
  }

  // The place in a new list of frames that lies nearest to the frame shown before.
  function nearest(list, frame) {
    let place = 0;
    list.forEach((other, i) => {
      if (Math.abs(other - frame) < Math.abs(list[place] - frame)) place = i;
    });
    return place;
  }

  const read = (root) => JSON.parse(root.querySelector('script[type="application/json"]').textContent);

  const clamp = (place, count) => Math.min(Math.max(place, 0), count - 1);

  function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  let count = 0;

  // What Python writes for the first frame, for other frames and runs: `data` with `title`, `seeds` and the `image`.
  function make(data, frame = 0) {
    const { title, seeds, image, panels } = data;
    const view = element("div", { class: "frames-view" });
    view.innerHTML = '<svg class="frames-picture" role="img"><image></image></svg><p class="frames-label"></p>';
    for (const [key, value] of Object.entries(image)) view.querySelector("image").setAttribute(key, value);
    const row = (name, cell) => {
      const head = element(cell === "th" ? "td" : "th", cell === "th" ? {} : { scope: "row" }, name);
      return element("tr", {}, head, ...panels.map((p) => element(cell, cell === "th" ? { scope: "col" } : {}, p.name)));
    };
    const body = seeds.map((seed) => row(`seed ${seed}`, "td"));
    const table = element(
      "table",
      { class: "frames-table" },
      element("thead", {}, row("", "th")),
      element("tbody", {}, ...body),
      element("tfoot", {}, row("together", "td")),
    );
    const root = element("div", { class: "frames", role: "group", "aria-label": title, "data-title": title });
    root.append(element("div", { class: "frames-body" }, view, table));
    start(root, data, frame);
    return root;
  }

  function start(root, data = read(root), frame = 0) {
    root.dataset.started = "";
    const { panels, actions, labels, verdicts, many, columns, width, height } = data;
    const picture = root.querySelector(".frames-picture");
    const label = root.querySelector(".frames-label");
    const rows = [...root.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")]);
    const together = [...root.querySelectorAll("tfoot td")];
    const state = { list: select(panels, "all"), place: frame };
    const key = `frames-${++count}`;
    const slider = element("input", { id: `${key}-frame`, type: "range", min: 0, step: 1 });
    const back = element("button", { type: "button", "aria-label": "previous frame" }, "◀");
    const on = element("button", { type: "button", "aria-label": "next frame" }, "▶");
    const filter = element("select", { id: `${key}-which` });
    const choices = [
      ["all", "every frame"],
      ...(panels.length > 1 ? [["any", "some seeds differ"]] : []),
      ...panels.map((panel) => [panel.name, `only where seeds differ: ${panel.name}`]),
    ];
    for (const [value, text] of choices) {
      const number = select(panels, value).length;
      const option = element("option", { value }, `${text} (${number})`);
      option.disabled = number === 0;
      filter.append(option);
    }
    const report = element("p", { class: "frames-report" });
    const named = (control, name) => [element("label", { for: control.id }, name), control];
    const line = element("div", { class: "frames-line" }, back, ...named(slider, "frame"), on);
    const choice = element("div", { class: "frames-choice" }, ...named(filter, "which frames"));
    root.prepend(element("div", { class: "frames-controls" }, line, choice));
    root.append(report);
    const say = globalThis.announce?.(root, () => `${label.textContent}. ${report.textContent}`);

    function draw() {
      const frame = state.list[state.place];
      const corner = [(frame % columns) * width, Math.floor(frame / columns) * height];
      picture.setAttribute("viewBox", `${corner.join(" ")} ${width} ${height}`);
      picture.setAttribute("aria-label", `${root.dataset.title}: ${labels[frame]}`);
      label.textContent = labels[frame];
      const found = panels.map((panel) => status(panel.best[frame], panel.orders?.[frame]));
      panels.forEach((panel, column) => {
        rows.forEach((cells, run) => {
          const [action, ties] = words(panel.best[frame][run], actions, many, panel.orders?.[frame]?.[run]);
          cells[column].dataset.mark = found[column];
          cells[column].replaceChildren(element("span", {}, action), element("small", {}, ties));
        });
        together[column].dataset.mark = found[column];
        together[column].textContent = verdicts[found[column]];
      });
      slider.max = state.list.length - 1;
      slider.value = state.place;
      root.dataset.frame = frame;
      const where = `Frame ${state.place + 1} of ${state.list.length}`;
      slider.setAttribute("aria-valuetext", `${where}, ${labels[frame]}`);
      back.disabled = state.place === 0;
      on.disabled = state.place === state.list.length - 1;
      const said = panels.map((panel, column) => `${panel.name}: ${verdicts[found[column]].slice(2)}`);
      report.textContent = `${where}. ${said.join("; ")}.`;
    }

    function go(place) {
      state.place = clamp(place, state.list.length);
      draw();
    }

    slider.addEventListener("input", () => go(Number(slider.value)));
    back.addEventListener("click", () => go(state.place - 1));
    on.addEventListener("click", () => go(state.place + 1));
    filter.addEventListener("change", () => {
      const frame = state.list[state.place];
      state.list = select(panels, filter.value);
      go(nearest(state.list, frame));
    });
    root.tabIndex = 0;
    root.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      // The slider and the list have arrow keys of their own.
      if (!step || event.target === slider || event.target === filter) return;
      event.preventDefault();
      go(state.place + step);
      say?.();
    });
    let down = null;
    picture.addEventListener("pointerdown", (event) => {
      down = event.clientX;
      picture.setPointerCapture(event.pointerId);
    });
    picture.addEventListener("pointerup", (event) => {
      const way = event.clientX - down;
      if (down !== null && Math.abs(way) > SWIPE) {
        go(state.place - Math.sign(way));
        say?.();
      }
      down = null;
    });
    picture.addEventListener("pointercancel", () => {
      down = null;
    });
    draw();
  }

  return { chosen, clamp, make, nearest, select, start, status, words };
})();

if (typeof module === "object") module.exports = globalThis.Frames;
else document.querySelectorAll(".frames:not([data-started])").forEach((root) => globalThis.Frames.start(root));
