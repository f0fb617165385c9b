"""Fetch the data set abalone; ``python data_scripts/fetch_abalone.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("abalone"))
