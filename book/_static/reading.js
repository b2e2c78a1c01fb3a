// Three depths of one page: Read shows story, statements and figures; Code and Proofs open what is folded.
(() => {
  const KEY = "rrl-depth";
  const NAMES = { read: "Read", code: "Code", proofs: "Proofs" };
  const OPENED = { read: null, code: "details.hide, details.fold-code", proofs: "details.fold-proofs" };
  const instantly = (element) => element.scrollIntoView({ behavior: "instant", block: "start" });
  const kept = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser may keep nothing for a page from a file
    }
  };

  const show = (depth) => {
    for (const fold of document.querySelectorAll(".bd-article details:is(.hide, .fold)")) {
      fold.open = OPENED[depth] !== null && fold.matches(OPENED[depth]);
    }
    for (const button of document.querySelectorAll(".depths button")) {
      button.setAttribute("aria-pressed", String(button.value === depth));
    }
  };

  // A link or a search hit that leads into something folded opens it.
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const pane = target.closest(".tabbed .printed");
    pane?.closest(".tabbed").querySelectorAll(".statement-tabs button")[1].click();
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    instantly(target);
  };

  addEventListener("DOMContentLoaded", () => {
    const folds = document.querySelectorAll(".bd-article details:is(.hide, .fold)");
    const buttons = document.querySelector(".article-header-buttons");
    if (folds.length && buttons) {
      const group = document.createElement("div");
      group.className = "depths";
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", "Depth of this page");
      for (const [value, text] of Object.entries(NAMES)) {
        const button = document.createElement("button");
        Object.assign(button, { type: "button", value, textContent: text });
        button.addEventListener("click", () => {
          try {
            localStorage.setItem(KEY, value);
          } catch {
            // kept for this page only
          }
          show(value);
        });
        group.append(button);
      }
      // A phone has no room for it among these buttons, which stay in sight and would let it cover the text.
      const narrow = matchMedia("(max-width: 600px)");
      const place = () => (narrow.matches ? document.querySelector(".bd-article") : buttons).prepend(group);
      narrow.addEventListener("change", place);
      place();
      show(kept() in NAMES ? kept() : "read");
    }
    for (const mark of document.querySelectorAll(".bd-article details .highlighted")) {
      for (let fold = mark.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    }
    statements();
    figures();
    reveal();
  });
  addEventListener("hashchange", reveal);

  // The corrected statement and the printed one, as tabs.
  const statements = () => {
    for (const box of document.querySelectorAll(".bd-article div.proof:has(.printed)")) {
      const printed = box.querySelector(".printed");
      const corrected = [...printed.parentElement.children].filter((child) => child !== printed);
      const list = document.createElement("span");
      list.className = "statement-tabs";
      list.setAttribute("role", "tablist");
      const choose = (place) => {
        [...list.children].forEach((tab, i) => {
          tab.setAttribute("aria-selected", String(i === place));
          tab.tabIndex = i === place ? 0 : -1;
        });
        printed.hidden = place === 0;
        corrected.forEach((child) => (child.hidden = place === 1));
      };
      ["corrected", "as printed"].forEach((text, place) => {
        const tab = document.createElement("button");
        Object.assign(tab, { type: "button", textContent: text });
        tab.setAttribute("role", "tab");
        tab.addEventListener("click", () => choose(place));
        tab.addEventListener("keydown", (event) => {
          if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
          choose(1 - place);
          list.children[1 - place].focus();
        });
        list.append(tab);
      });
      let head = box.querySelector(".statement-head");
      if (!head) {
        head = document.createElement("div");
        head.className = "statement-head";
        box.querySelector(".admonition-title").after(head);
      }
      head.append(list);
      box.classList.add("tabbed");
      choose(0);
    }
  };

  // A tap on a figure shows it as large as the window; Escape or another tap puts it back.
  const figures = () => {
    for (const image of document.querySelectorAll(".bd-article figure img")) {
      image.addEventListener("click", () => {
        const dialog = document.createElement("dialog");
        dialog.className = "enlarged";
        dialog.setAttribute("aria-label", image.alt);
        dialog.append(image.cloneNode());
        dialog.addEventListener("click", () => dialog.close());
        dialog.addEventListener("close", () => dialog.remove());
        document.body.append(dialog);
        dialog.showModal();
      });
    }
  };

  // Paper shows everything of the depth chosen; both versions of a statement.
  addEventListener("beforeprint", () => {
    document.querySelectorAll(".tabbed section > [hidden]").forEach((child) => (child.hidden = false));
  });
})();
