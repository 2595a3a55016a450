"""`python -m jaxobs` is the command `jaxobs`."""

import os
import sys


def _leave_the_users_modules() -> None:
    """Take the folder that one is in off the path, where `-m` has put it: a `queue.py` there is for the script alone."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  # loads nothing more
    try:
        here = os.getcwd()  # noqa: PTH109
    except OSError:  # it was removed
        return
    if sys.path[0] == here != ours:
        del sys.path[0]


if __name__ == "__main__":
    _leave_the_users_modules()
    from jaxobs.cli import main

    sys.exit(main())
