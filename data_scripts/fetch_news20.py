"""Fetch the data set news20; ``python data_scripts/fetch_news20.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("news20"))
