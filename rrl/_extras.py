"""The optional packages: what an error says when one is missing."""

__all__ = ["missing"]

DISTRIBUTION = "replicable-rl"


def missing(extra, what):
    """The error for a package that an extra brings; it says how to install the extra.

    Parameters
    ----------
    extra : str
        Name of the extra in ``pyproject.toml``; several are separated by commas.
    what : str
        Who needs which package.

    Returns
    -------
    ImportError

    Examples
    --------
    >>> from rrl._extras import missing
    >>> print(missing("experiments", "MinAtar needs numba"))
    MinAtar needs numba: pip install -e '.[experiments]' in a clone of the repository,
    or pip install 'replicable-rl[experiments] @ git+URL' with the repository's address as URL
    """
    return ImportError(
        f"{what}: pip install -e '.[{extra}]' in a clone of the repository, "
        f"or pip install '{DISTRIBUTION}[{extra}] @ git+URL' with the repository's address as URL"
    )
