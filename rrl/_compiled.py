"""numba's compiler for the engines, whose results are kept on disk where there is a place."""

__all__ = ["njit"]


def njit(**options):
    """Decorator: ``numba.njit(cache=True, **options)``, without the cache where no folder can hold one."""
    import numba

    def compile(function):
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # a package and a home that are read-only: it is compiled anew in every process
            return numba.njit(**options)(function)

    return compile
