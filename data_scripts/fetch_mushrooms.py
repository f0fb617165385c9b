"""Fetch the data set mushrooms; ``python data_scripts/fetch_mushrooms.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("mushrooms"))
