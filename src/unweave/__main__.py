"""``python -m unweave`` is the command line."""

import sys

from unweave.cli import main

if __name__ == "__main__":
    sys.exit(main())
