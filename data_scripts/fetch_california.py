"""Fetch the data set california; ``python data_scripts/fetch_california.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("california"))
