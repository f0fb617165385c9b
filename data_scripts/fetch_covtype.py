"""Fetch the data set covtype; ``python data_scripts/fetch_covtype.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("covtype"))
