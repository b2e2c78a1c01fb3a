"""The bibliography: labels that can be read, as in "Eaton et al., 2025", and round brackets in the text."""

from collections import Counter

from pybtex.plugin import register_plugin
from pybtex.richtext import Text
from pybtex.style.formatting.unsrt import Style as Unsorted
from pybtex.style.labels import BaseLabelStyle
from sphinxcontrib.bibtex.plugin import register_plugin as register_reference_style
from sphinxcontrib.bibtex.style.referencing import BracketStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle


def names_of(entry):
    """The authors of an entry in a label: one, two, or the first and the rest."""
    people = entry.persons.get("author") or entry.persons.get("editor") or []
    names = [str(Text.from_latex(" ".join([*who.prelast_names, *who.last_names]))) for who in people]
    return f"{names[0]} et al." if len(names) > 2 else " and ".join(names)


class AuthorYearLabels(BaseLabelStyle):
    """Labels of names and year, with a letter where two are alike."""

    def format_labels(self, sorted_entries):
        """One label for each entry, in their order."""
        labels = [f"{names_of(entry)}, {entry.fields['year']}" for entry in sorted_entries]
        counts, seen = Counter(labels), Counter()
        for label in labels:
            seen[label] += 1
            yield label + (chr(ord("a") + seen[label] - 1) if counts[label] > 1 else "")


class BookStyle(Unsorted):
    """Entries by author and year, each with the links that its fields give."""

    default_sorting_style = "author_year_title"
    default_label_style = AuthorYearLabels


class RoundAuthorYear(AuthorYearReferenceStyle):
    """References as in "Eaton et al. (2025)"."""

    def __post_init__(self):
        self.bracket_parenthetical = self.bracket_textual = BracketStyle(left="(", right=")")
        super().__post_init__()


def setup(app):
    """Register the styles under the names that the configuration and the page use."""
    register_plugin("pybtex.style.formatting", "book", BookStyle)
    register_reference_style("sphinxcontrib.bibtex.style.referencing", "round_author_year", RoundAuthorYear)
