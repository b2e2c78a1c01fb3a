"""The paper's bounds as pure functions of its symbols, every constant explicit.

``version="printed"`` is the formula as the paper prints it (or as its proof derives it where the
statement hides a constant in Omega); ``version="corrected"`` is the repaired one, with the erratum
named in the docstring. Nothing here looks at data.
"""

from . import bonus, exploration, exponents, lattice, linear, lsvi, lsvi_ucb, rounding, sharper, stopping, uniform
from .bonus import *
from .exploration import *
from .exponents import *
from .lattice import *
from .linear import *
from .lsvi import *
from .lsvi_ucb import *
from .rounding import *
from .sharper import *
from .stopping import *
from .uniform import *

__all__ = [
    *rounding.__all__,
    *linear.__all__,
    *lsvi.__all__,
    *lsvi_ucb.__all__,
    *bonus.__all__,
    *sharper.__all__,
    *lattice.__all__,
    *uniform.__all__,
    *stopping.__all__,
    *exploration.__all__,
    *exponents.__all__,
]
