// Frames of recorded states, with what every run would do there. No library, no network.
"use strict";

// A page may load this file once for each of its viewers.
globalThis.Frames ??= (() => {
  const SWIPE = 30; // pixels of a finger's way that count as a swipe

  // Actions are kept as bits: all best actions of a run in a frame. The lowest is the one that is chosen.
  const chosen = (mask) => 31 - Math.clz32(mask & -mask);
  const members = (mask, count) => Array.from({ length: count }, (_, i) => i).filter((i) => (mask >> i) & 1);

  function status(masks) {
    if (new Set(masks.map(chosen)).size > 1) return "differ";
    return masks.some((mask) => mask & (mask - 1)) ? "tie" : "agree";
  }

  function words(mask, actions, many) {
    const [first, ...others] = members(mask, actions.length).map((i) => actions[i]);
    if (!others.length) return [first, ""];
    return [first, `tied with ${others.length <= many ? others.join(", ") : `${others.length} others`}`];
  }

  // Numbers of the frames in which the runs of a panel differ; "any": of some panel; "all": every frame.
  function select(panels, which) {
    const frames = panels[0].best.map((_, frame) => frame);
    if (which === "all") return frames;
    const asked = which === "any" ? panels : panels.filter((panel) => panel.name === which);
    return frames.filter((frame) => asked.some((panel) => status(panel.best[frame]) === "differ"));
  }

  // The place in a new list of frames that lies nearest to the frame shown before.
  function nearest(list, frame) {
    let place = 0;
    list.forEach((other, i) => {
      if (Math.abs(other - frame) < Math.abs(list[place] - frame)) place = i;
    });
    return place;
  }

  const clamp = (place, count) => Math.min(Math.max(place, 0), count - 1);

  function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function start(root) {
    root.dataset.started = "";
    const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    const { panels, actions, labels, verdicts, many, columns, width, height } = data;
    const picture = root.querySelector(".frames-picture");
    const label = root.querySelector(".frames-label");
    const rows = [...root.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")]);
    const together = [...root.querySelectorAll("tfoot td")];
    const state = { list: select(panels, "all"), place: 0 };

    const key = `frames-${document.querySelectorAll(".frames[data-started]").length}`;
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
      const count = select(panels, value).length;
      const option = element("option", { value }, `${text} (${count})`);
      option.disabled = count === 0;
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
      const found = panels.map((panel) => status(panel.best[frame]));
      panels.forEach((panel, column) => {
        rows.forEach((cells, run) => {
          const [action, ties] = words(panel.best[frame][run], actions, many);
          cells[column].dataset.mark = found[column];
          cells[column].replaceChildren(element("span", {}, action), element("small", {}, ties));
        });
        together[column].dataset.mark = found[column];
        together[column].textContent = verdicts[found[column]];
      });
      slider.max = state.list.length - 1;
      slider.value = state.place;
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

  return { clamp, nearest, select, start, status, words };
})();

if (typeof module === "object") module.exports = globalThis.Frames;
else document.querySelectorAll(".frames:not([data-started])").forEach(globalThis.Frames.start);
