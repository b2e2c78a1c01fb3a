// One game's runs, a grid and a rule for ties: why two runs then act alike. No library, no network.
"use strict";

globalThis.Explorer ??= (() => {
  const RULES = ["first", "shared", "independent"];
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

  // Halves go upwards, as in the package.
  function fixed(value, digits = 2) {
    const unit = 10 ** digits;
    return ((Math.floor(value * unit + 0.5) || 0) / unit).toFixed(digits).replace("-", "−");
  }

  const two = (value) => fixed(value);
  const percent = (value) => `${fixed(100 * value, 0)}%`;

  // A set's numbers on one of its group's grids under a rule.
  function parts(own, at, rule) {
    const cell = own.cells[at];
    const [value, low, high] = cell.slice(3 * RULES.indexOf(rule));
    const [chance, ties, single, same] = cell.slice(9);
    return { value, low, high, chance, state: cell[6] - chance, rule: value - cell[6], ties, single, same };
  }

  // The table's column, as the package writes it.
  function lines(own, at, rule) {
    const found = parts(own, at, rule);
    const [mean, ...ends] = own.return;
    const digits = mean >= 100 ? 0 : 1;
    const limits = ends.includes(null) ? "" : ` (${fixed(ends[0], digits)} to ${fixed(ends[1], digits)})`;
    const range = own.runs < 3 ? "one pair of runs" : `${two(found.low)} to ${two(found.high)}`;
    return [
      mean === null ? "no game ended" : `${fixed(mean, digits)}${limits}`,
      `${two(found.value)} (${range})`,
      two(found.state),
      two(found.chance),
      two(found.rule),
      percent(found.ties),
      percent(found.single),
      percent(found.same),
    ];
  }

  // Masks of best actions, frame by frame and run by run.
  function unpack(text, group) {
    const runs = group.seeds.length;
    const value = (place) =>
      Array.from({ length: group.digits }, (_, k) => DIGITS.indexOf(text[place * group.digits + k]) << (6 * k)).reduce(
        (a, b) => a | b,
      );
    return group.labels.map((_, frame) => group.seeds.map((_, run) => value(frame * runs + run)));
  }

  // The order in which each run takes tied actions in each frame; none for the list's own.
  function orders(group, rule) {
    if (rule === "first") return undefined;
    const count = group.actions.length;
    const text = group.orders[rule === "shared" ? 0 : 1];
    const one = (place) => [...text.slice(place * count, (place + 1) * count)].map(Number);
    return group.labels.map((_, frame) =>
      group.seeds.map((_, run) => one(rule === "shared" ? frame : frame * group.seeds.length + run)),
    );
  }

  function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  // The agreement as a bar; what is negative goes to the left of nothing.
  function bar(found) {
    const box = element("div", { class: "explorer-bar", "aria-hidden": "true" });
    let right = 0;
    let left = 0;
    for (const [name, size] of [["chance", found.chance], ["state", found.state], ["ties", found.rule]]) {
      const from = size < 0 ? (left += size) : right;
      if (size > 0) right += size;
      const style = `left: ${(100 * (from + 0.25)) / 1.25}%; width: ${(100 * Math.abs(size)) / 1.25}%`;
      box.append(element("span", { class: `explorer-${name}${size < 0 ? " less" : ""}`, style }));
    }
    box.append(element("i", { style: `left: ${(100 * (found.value + 0.25)) / 1.25}%` }));
    return box;
  }

  function start(root) {
    root.dataset.started = "";
    const data = JSON.parse(root.querySelector(".explorer-data").textContent);
    const { groups, rules } = data;
    const games = [...new Set(groups.map((group) => group.game))];
    const head = [...root.querySelectorAll("thead th")];
    const rows = [...root.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")]);
    const scale = root.querySelector(".explorer-scale");
    const place = root.querySelector(".explorer-frames");
    const state = { group: groups[0], set: data.chosen, at: groups[0].sets[data.chosen].at, rule: "first" };

    const key = `explorer-${document.querySelectorAll(".explorer[data-started]").length}`;
    const game = element("select", { id: `${key}-game` }, ...games.map((name) => element("option", {}, name)));
    const runs = element("select", { id: `${key}-runs` });
    const grid = element("input", { id: `${key}-grid`, type: "range", min: 0, max: groups[0].steps.length - 1 });
    const step = element("output", { for: grid.id });
    const rule = element("select", { id: `${key}-rule` }, ...rules.map(([v, t]) => element("option", { value: v }, t)));
    const controls = element("div", { class: "explorer-controls" });
    for (const [control, name, more] of [
      [game, "game"],
      [runs, "runs"],
      [grid, "grid", step],
      [rule, "ties go to"],
    ]) {
      controls.append(element("label", { for: control.id }, name), control, more ?? "");
    }
    root.prepend(controls);
    const report = element("p", { class: "explorer-report" });
    place.before(report);

    globalThis.announce?.(controls, () => report.textContent);
    rows[1][0].parentElement.classList.add("explorer-whole");

    function fill() {
      const own = groups.filter((group) => group.game === game.value);
      runs.replaceChildren(
        ...own.map((group) => {
          const options = group.sets.map((set, k) =>
            element("option", { value: `${groups.indexOf(group)}/${k}` }, set.name),
          );
          return element("optgroup", { label: group.scale }, ...options);
        }),
      );
      runs.value = `${groups.indexOf(state.group)}/${state.set}`;
    }

    const words = (at) => {
      const value = state.group.steps[at];
      const own = state.group.sets[state.set].at === at ? " (theirs)" : "";
      return (value ? `${value}` : "none") + own;
    };

    function draw() {
      const { group, at } = state;
      const set = group.sets[state.set];
      const plain = group.sets[0];
      const columns = [
        [plain, 0, "first", plain.name],
        [set, at, state.rule, `${set.name}, grid ${words(at)}`],
      ];
      columns.forEach(([own, grid, rule, name], column) => {
        head[column].textContent = name;
        lines(own, grid, rule).forEach((text, line) => {
          if (line !== 1) rows[line][column].textContent = text;
          else rows[line][column].replaceChildren(text, bar(parts(own, grid, rule)));
        });
      });
      scale.textContent = `${group.game}, ${group.scale}`;
      grid.value = at;
      step.textContent = words(at);
      grid.setAttribute("aria-valuetext", words(at));
      const found = parts(set, at, state.rule);
      const compared = set.return[0] !== null && plain.return[0] > 0;
      const kept = compared ? ` These runs keep ${percent(set.return[0] / plain.return[0])} of plain's return.` : "";
      report.textContent =
        `Agreement ${two(found.value)} = state ${two(found.state)} + chance ${two(found.chance)} + ` +
        `ties ${two(found.rule)}; plain runs ${two(parts(plain, 0, "first").value)}.${kept}`;
      const panels = columns.map(([own, grid, rule, name]) => ({
        name,
        best: unpack(own.masks[grid], group),
        orders: orders(group, rule),
      }));
      if (panels[0].name === panels[1].name) panels.pop();
      const before = place.querySelector(".frames")?.dataset.frame ?? 0;
      const { actions, labels, seeds, image, width, height, columns: across } = group;
      const { verdicts, many } = data;
      const shown = { panels, actions, labels, seeds, image, width, height, columns: across, verdicts, many };
      const frame = Math.min(Number(before), labels.length - 1);
      const viewer = globalThis.Frames.make({ ...shown, title: `Frames of ${group.game}` }, frame);
      place.querySelector(".frames").replaceWith(viewer);
    }

    game.addEventListener("change", () => {
      const name = state.group.sets[state.set].name;
      state.group = groups.find((group) => group.game === game.value);
      state.set = Math.max(0, state.group.sets.findIndex((set) => set.name === name));
      state.at = state.group.sets[state.set].at;
      fill();
      draw();
    });
    runs.addEventListener("change", () => {
      const [group, set] = runs.value.split("/").map(Number);
      Object.assign(state, { group: groups[group], set, at: groups[group].sets[set].at });
      draw();
    });
    grid.addEventListener("input", () => {
      state.at = Number(grid.value);
      draw();
    });
    rule.addEventListener("change", () => {
      state.rule = rule.value;
      draw();
    });
    fill();
    draw();
  }

  return { lines, orders, parts, start, unpack };
})();

if (typeof module === "object") module.exports = globalThis.Explorer;
else document.querySelectorAll(".explorer:not([data-started])").forEach((root) => globalThis.Explorer.start(root));
