"""Fetch the data set fashion_mnist; ``python data_scripts/fetch_fashion_mnist.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("fashion_mnist"))
