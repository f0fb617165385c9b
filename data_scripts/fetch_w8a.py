"""Fetch the data set w8a; ``python data_scripts/fetch_w8a.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("w8a"))
