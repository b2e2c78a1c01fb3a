// The filters of the claim map and of the errata. Without this script the page is the whole table.
"use strict";

for (const table of document.querySelectorAll("table:is(.claims, .errata-all)")) {
  const [title, noun] = table.matches(".claims") ? ["the claim map", "items"] : ["the errata", "errata"];
  const rows = [...table.querySelectorAll("tbody tr")];
  const parts = (row, prefix) =>
    [...row.classList].filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
  const kinds = {
    def: "definitions", asm: "assumptions", prop: "propositions", lem: "lemmas", thm: "theorems",
    cor: "corollaries", alg: "algorithms", fig: "figures", tab: "tables",
  };
  const chapter = (name) => {
    const number = name.split("_")[0];
    return (/^\d+$/.test(number) ? `chapter ${Number(number)}` : `appendix ${number}`);
  };
  const columns = [
    ["Kind", (row) => parts(row, "kind-"), (value) => kinds[value] ?? value.replaceAll("-", " ")],
    ["Status", (row) => parts(row, "status-"), (value) => value.replaceAll("-", " ")],
    ["Chapter", (row) => parts(row, "in-"), chapter],
  ].filter(([, value]) => rows.some((row) => value(row).length));

  const form = document.createElement("form");
  form.className = "claims-filter";
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", `Filter ${title}`);
  const add = (name, control) => {
    const label = document.createElement("label");
    label.append(name, control);
    form.append(label);
    return control;
  };
  const text = add("Text", Object.assign(document.createElement("input"), { type: "search" }));
  const selects = columns.map(([name, value, title]) => {
    const select = add(name, document.createElement("select"));
    select.append(new Option("all", ""));
    const values = [...new Set(rows.flatMap(value))];
    for (const one of name === "Chapter" ? values.sort() : values) select.append(new Option(title(one), one));
    return select;
  });
  const reset = Object.assign(document.createElement("button"), { type: "button", textContent: "Show all" });
  const count = Object.assign(document.createElement("span"), { className: "claims-count" });
  form.append(reset, count);
  const target = table.closest(".pst-scrollable-table-container, .table-wrapper") ?? table;
  target.before(form);

  const contents = rows.map((row) => row.textContent.toLowerCase());
  const apply = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      const fits = words.every((word) => contents[i].includes(word)) &&
        selects.every((select, j) => !select.value || columns[j][1](row).includes(select.value));
      row.hidden = !fits;
      shown += fits;
    });
    count.textContent = `${shown} of ${rows.length} ${noun}`;
  };
  form.addEventListener("input", apply);
  globalThis.announce?.(form, () => count.textContent);
  form.addEventListener("submit", (event) => event.preventDefault());
  const showAll = () => {
    form.reset();
    apply();
  };
  reset.addEventListener("click", showAll);
  // A link to a row must find it, whatever is filtered.
  addEventListener("hashchange", () => {
    const row = document.getElementById(location.hash.slice(1));
    if (row?.hidden) {
      showAll();
      row.scrollIntoView();
    }
  });
  apply();
}
