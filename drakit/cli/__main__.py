"""`python -m drakit.cli`: the same as the command `drakit`."""

import sys

from drakit.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
