"""`python -m jaxobs` is the command `jaxobs`."""

import sys

from jaxobs.cli import main

if __name__ == "__main__":
    sys.exit(main())
