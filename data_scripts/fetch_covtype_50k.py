"""Fetch the data set covtype_50k; ``python data_scripts/fetch_covtype_50k.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("covtype_50k"))
