// How a search ranks: what the book was told to find, then titles, then texts; the package's interface last.
const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+(?:[.-][\p{L}\p{N}]+)*/gu) ?? [];
// Places whose words all stand in the query, numbered ones first: "Algorithm 4" in "bin width of Algorithm 4".
let meant = null;
const weight = (entry) => [/\d/.test(entry), words(entry).length, entry.length].reduce((sum, part) => 100 * sum + +part, 0);
const places = () => {
  const asked = new Set(words(new URLSearchParams(location.search).get("q") ?? ""));
  return Object.entries(Search._index.indexentries)
    .filter(([entry]) => words(entry).length < asked.size && words(entry).every((word) => asked.has(word)))
    .sort(([one], [two]) => weight(two) - weight(one))
    .flatMap(([entry, found]) =>
      found.filter(([, , main]) => main).map(([file, id]) => [Search._index.docnames[file], id, entry]),
    );
};

var Scorer = {
  score: (result) => {
    const [page, title, anchor, description, score] = result;
    meant ??= places();
    const rank = anchor || description ? -1 : meant.findIndex(([name]) => name === page);
    if (rank >= 0) {
      if (meant[rank][1]) result[2] = `#${meant[rank][1]}`;
      return 100 - rank;
    }
    // A description marks a name of the package: first if it is all of the query.
    if (description) return score >= Scorer.objNameMatch ? score : score - 60;
    if (page.startsWith("book/api") || page === "book/environment" || page === "book/changelog") return score - 40;
    return score;
  },
  objNameMatch: 60,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 40,
  partialTitle: 15,
  term: 5,
  partialTerm: 2,
};
