"""Fetch the data set ijcnn1; ``python data_scripts/fetch_ijcnn1.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("ijcnn1"))
