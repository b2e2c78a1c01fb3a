// How a search ranks: what the book was told to find, then titles, then texts; the package's interface last.
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
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
