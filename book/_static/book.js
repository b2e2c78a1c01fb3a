// The theme leaves the side bar's heading outside every landmark, and what unfolds in it without a name.
document.addEventListener("DOMContentLoaded", () => {
  const bar = document.querySelector(".bd-sidebar-primary");
  bar?.setAttribute("role", "region");
  bar?.setAttribute("aria-label", "Contents");
  for (const toggle of bar?.querySelectorAll("summary:has(.toctree-toggle)") ?? []) {
    toggle.setAttribute("aria-label", `Pages of ${toggle.closest("li").querySelector("a").textContent.trim()}`);
  }
});

// What scrolls inside its own box must be reached by keyboard, too.
addEventListener("load", async () => {
  await globalThis.MathJax?.startup?.promise;
  const observer = new ResizeObserver((entries) => {
    for (const { target: box } of entries) {
      const wide = box.scrollWidth > box.clientWidth && /auto|scroll/.test(getComputedStyle(box).overflowX);
      if (wide) box.tabIndex = 0;
    }
  });
  const boxes = ".bd-article :is(pre, td, table, .math, .pst-scrollable-table-container)";
  document.querySelectorAll(boxes).forEach((box) => observer.observe(box));
});

// The theme dresses pandas' tables but not its styled ones; a number and its error stay in one line.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll('.cell_output table[id^="T_"]').forEach((table) => table.classList.add("dataframe"));
  for (const cell of document.querySelectorAll(".cell_output td")) {
    const text = cell.textContent.trim();
    if (text.includes(" ± ") && text.length < 24) cell.style.whiteSpace = "nowrap";
  }
});

// Says a widget's result to a screen reader once its controls have rested, not at every step of a slider.
globalThis.announce = (root, words, rest = 600) => {
  const region = document.createElement("p");
  region.className = "widget-said";
  region.setAttribute("role", "status");
  root.append(region);
  let timer;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(() => (region.textContent = words()), rest);
  };
  root.addEventListener("input", later);
  root.addEventListener("change", later);
  root.addEventListener("click", (event) => event.target.closest("button") && later());
  return later;
};

// From a file, a browser may not read the pages that were found for an extract: show their titles alone.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
