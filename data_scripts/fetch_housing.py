"""Fetch the data set housing; ``python data_scripts/fetch_housing.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("housing"))
