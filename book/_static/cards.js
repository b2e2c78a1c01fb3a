// A link to a numbered item shows its statement: on hover, on focus, at a first tap. Escape puts it away.
(() => {
  const ITEM = /#(?:(?:def|asm|prop|lem|thm|cor|alg|fig|tab)-[\w-]+|e\d+)$/;
  const ID = "item-card";
  const OPEN = 250;
  const CLOSE = 200;
  const base = new URL(document.documentElement.dataset.content_root || "./", location.href).href;
  let [loading, shown, timer, touch] = [null, null, 0, false];

  // A script and no fetch: a page from a file may load it, too. It is asked for when a card is.
  const data = () =>
    (loading ??= new Promise((done) => {
      const script = document.createElement("script");
      script.src = `${base}_static/cards-data.js`;
      script.addEventListener("load", () => done(globalThis.CARDS));
      script.addEventListener("error", () => done({}));
      document.head.append(script);
    }));

  const linkAt = (event) => {
    const link = event.target.closest?.(".bd-article a[href]");
    if (!link || !ITEM.test(link.href) || !link.href.startsWith(base)) return null;
    return link.closest(`[id="${link.hash.slice(1)}"]`) ? null : link;
  };

  const hide = () => {
    clearTimeout(timer);
    document.getElementById(ID)?.remove();
    shown?.removeAttribute("aria-describedby");
    shown = null;
  };

  const show = async (link) => {
    if (link === shown) return;
    hide();
    shown = link;
    const html = (await data())[link.href.slice(base.length)];
    if (!html || shown !== link) return Boolean(html);
    const card = document.createElement("div");
    Object.assign(card, { id: ID, className: "item-card", innerHTML: html });
    card.setAttribute("role", "tooltip");
    const pictures = [...card.querySelectorAll("img")];
    for (const picture of pictures) picture.src = base + picture.getAttribute("src");
    card.addEventListener("pointerenter", () => clearTimeout(timer));
    card.addEventListener("pointerleave", () => later(hide, CLOSE));
    document.body.append(card);
    link.setAttribute("aria-describedby", ID);
    await globalThis.MathJax?.typesetPromise?.([card]);
    // The place depends on the height.
    await Promise.all(pictures.map((picture) => picture.decode().catch(() => {})));
    const place = link.getClientRects()[0];
    const below = place.bottom + card.offsetHeight + 12 < innerHeight || place.top < innerHeight - place.bottom;
    card.style.top = `${scrollY + (below ? place.bottom + 6 : place.top - card.offsetHeight - 6)}px`;
    card.style.left = `${Math.max(8, Math.min(place.left, document.documentElement.clientWidth - card.offsetWidth - 8))}px`;
    card.classList.add("placed");
    return true;
  };

  const later = (act, time) => {
    clearTimeout(timer);
    timer = setTimeout(act, time);
  };

  addEventListener("pointerdown", (event) => (touch = event.pointerType === "touch"), true);
  addEventListener("pointerover", (event) => {
    const link = event.pointerType !== "touch" && linkAt(event);
    if (link) later(() => show(link), OPEN);
  });
  addEventListener("pointerout", (event) => event.pointerType !== "touch" && linkAt(event) && later(hide, CLOSE));
  addEventListener("focusin", (event) => {
    const link = linkAt(event);
    if (link && link.matches(":focus-visible")) show(link);
  });
  addEventListener("focusout", (event) => linkAt(event) && hide());
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
  addEventListener("click", (event) => {
    const link = linkAt(event);
    if (link && touch && link !== shown) {
      event.preventDefault();
      // What has no card is followed at once: a second click passes.
      show(link).then((found) => found || link.click());
    } else if (!event.target.closest?.(`#${ID}`)) hide();
  });
})();
