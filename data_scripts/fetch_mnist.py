"""Fetch the data set mnist; ``python data_scripts/fetch_mnist.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("mnist"))
