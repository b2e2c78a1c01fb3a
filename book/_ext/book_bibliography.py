"""The bibliography: labels that can be read, as in "Eaton et al., 2025", and round brackets in the text."""

from pybtex.plugin import register_plugin
from pybtex.richtext import Text
from pybtex.style.formatting.unsrt import Style as Unsorted
from pybtex.style.labels.alpha import LabelStyle
from sphinxcontrib.bibtex.plugin import register_plugin as register_reference_style
from sphinxcontrib.bibtex.style.referencing import BracketStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle


class AuthorYearLabels(LabelStyle):
    """Labels of names (one, two, or the first and the rest) and year; where two are alike, the base adds a letter."""

    def format_label(self, entry):
        people = entry.persons.get("author") or entry.persons.get("editor") or []
        names = [str(Text.from_latex(" ".join([*who.prelast_names, *who.last_names]))) for who in people]
        shown = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
        return f"{shown}, {entry.fields['year']}"


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
    register_plugin("pybtex.style.formatting", "book", BookStyle)
    register_reference_style("sphinxcontrib.bibtex.style.referencing", "round_author_year", RoundAuthorYear)
