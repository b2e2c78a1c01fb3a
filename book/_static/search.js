// Extracts of search results are prose: no buttons, no code, formulas in plain signs.
(() => {
  const SIGNS = { rho: "ρ", varepsilon: "ε", epsilon: "ε", delta: "δ", Delta: "Δ", lambda: "λ", alpha: "α", beta: "β" };
  Object.assign(SIGNS, { phi: "φ", theta: "θ", nu: "ν", sigma: "σ", Sigma: "Σ", le: "≤", ge: "≥", times: "×" });
  const LEFT_OUT = "button, script, style, svg, details.provenance, .cell_input, .headerlink, .statement-foot, .toctree-wrapper";

  const plain = (tex) => {
    const text = tex.replace(/^\\\(|\\\)$/g, "").replace(/\\(\w+)/g, (all, name) => SIGNS[name] ?? all);
    return /[\\{]/.test(text) || text.length > 24 ? "…" : text.replaceAll("$", "");
  };

  addEventListener("DOMContentLoaded", () => {
    if (typeof Search === "undefined") return;
    Search.htmlToText = (html, anchor) => {
      const page = new DOMParser().parseFromString(html, "text/html");
      const article = page.querySelector("article.bd-article") ?? page.body;
      article.querySelectorAll(LEFT_OUT).forEach((part) => part.remove());
      article.querySelectorAll(".math").forEach((part) => (part.textContent = plain(part.textContent.trim())));
      const place = anchor && article.querySelector(`[id="${CSS.escape(anchor.slice(1))}"]`);
      return (place || article).textContent.replace(/\s+/g, " ");
    };
  });
})();
