"""Fetch the data set a9a; ``python data_scripts/fetch_a9a.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("a9a"))
