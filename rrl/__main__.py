"""``python -m rrl``: the same program as ``rrl``."""

import sys

from .experiments.cli import main

if __name__ == "__main__":
    sys.exit(main())
