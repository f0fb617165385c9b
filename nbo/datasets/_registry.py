"""What is known about every data set: its files, their content, where they come from, and how it is split.

The data home holds the files under the paths written here, and a mirror is a folder with the same layout. A set may
have more than one *origin*, such as an official release and an earlier one: different files, which are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

Task = Literal["binary", "multiclass", "regression"]

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"


@dataclass(frozen=True)
class DataFile:
    """A file of the data home.

    Attributes
    ----------
    path : str
        Where it is below the data home.
    url : str
        Its public address; empty if it has none.
    digest : str
        ``"algorithm:hexadecimal digits"`` of the unpacked content, or of the `raw` file; empty if none is published.
    raw : str
        The name of the published file if the data home keeps it in another format; empty if not.
    """

    path: str
    url: str = ""
    digest: str = ""
    raw: str = ""

    @property
    def forms(self) -> tuple[str, ...]:
        """The names that the file may have in a folder: as it is kept, as it is published, unpacked."""
        name = PurePosixPath(self.path)
        unpacked = name.stem if name.suffix in (".bz2", ".gz") else ""
        return tuple(form for form in (name.name, self.raw, unpacked) if form)


@dataclass(frozen=True)
class Content:
    """A table of samples and labels, in one file or two, and what it must hold.

    Attributes
    ----------
    reader : str
        A name in ``_readers.READERS``.
    files : tuple of DataFile
        What the reader reads.
    rows, columns : int
        The shape of the samples.
    labels : dict or tuple of float
        How many rows there are of every label; for regression the smallest and the largest target.
    """

    reader: str
    files: tuple[DataFile, ...]
    rows: int
    columns: int
    labels: Mapping[int, int] | tuple[float, float]


@dataclass(frozen=True)
class Origin:
    """One set of files that a data set can be made from.

    Attributes
    ----------
    parts : dict
        ``train`` and, where the publisher made these parts, ``validation`` and ``test`` -> Content.
    note : str
        What is particular about this origin, for the description.
    """

    parts: Mapping[str, Content]
    note: str = ""

    def files(self) -> Iterator[DataFile]:
        """Yield the files of all parts."""
        for content in self.parts.values():
            yield from content.files


@dataclass(frozen=True)
class Entry:
    """A data set.

    Attributes
    ----------
    summary : str
        One line about it.
    task : str
        ``"binary"``, ``"multiclass"`` or ``"regression"``.
    source : str
        Who publishes it.
    origins : tuple of Origin
        What it can be made from, the best one first.
    positive : int, optional
        The label that becomes +1; the other one of a binary set becomes -1.
    cuts : dict
        What is cut off ``train`` for parts that the publisher did not make, in this order: ``test`` and ``validation``
        -> number of rows, or their share of what is there.
    n_train : int, optional
        How many of the remaining rows are used for training unless the caller says otherwise; all by default.
    standardize : bool
        Whether features are standardised unless the caller says otherwise.
    sparse : bool
        Whether samples are kept in CSR format.
    """

    summary: str
    task: Task
    source: str
    origins: tuple[Origin, ...]
    positive: int | None = None
    cuts: Mapping[str, int | float] = field(default_factory=lambda: {"test": 0.2, "validation": 0.2})
    n_train: int | None = None
    standardize: bool = False
    sparse: bool = False

    @property
    def built_in(self) -> bool:
        """Whether the set comes with scikit-learn and has no files of its own."""
        return not any(True for origin in self.origins for _ in origin.files())


def _built_in(loader: str, rows: int, columns: int, labels: Mapping[int, int] | tuple[float, float]) -> Origin:
    return Origin({"train": Content(loader, (), rows, columns, labels)})


def _libsvm(path: str, url: str, rows: int, columns: int, labels: Mapping[int, int] | tuple[float, float]) -> Content:
    return Content("svmlight", (DataFile(path, _LIBSVM + url),), rows, columns, labels)


def _idx(
    folder: str, base: str, prefix: str, rows: int, digests: tuple[str, str], counts: Mapping[int, int]
) -> Content:
    names = (f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz")
    files = (DataFile(f"{folder}/{name}", base + name, digest) for name, digest in zip(names, digests, strict=True))
    return Content("idx", tuple(files), rows, 784, counts)


def _npz(reader: str, path: str, rows: int, columns: int, labels: Mapping[int, int] | tuple[float, float]) -> Content:
    return Content(reader, (DataFile(path),), rows, columns, labels)


#: The whole of Covtype, converted from the file that scikit-learn fetches too; the digest is the one that it checks.
_COVTYPE = Content(
    "npz",
    (
        DataFile(
            "covtype/covtype.npz",
            "https://ndownloader.figshare.com/files/5976039",
            "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
            raw="covtype.data.gz",
        ),
    ),
    581_012,
    54,
    {1: 211_840, 2: 283_301, 3: 35_754, 4: 2_747, 5: 9_493, 6: 17_367, 7: 20_510},
)

_LIBSVM_SOURCE = f"LIBSVM collection, {_LIBSVM}"
_UCI = "UCI repository, https://archive.ics.uci.edu/dataset/31/covertype"
_IMAGES = {"test": 10_000, "validation": 5_000}

_NEWS_GROUPS = dict(
    enumerate(
        (797, 780, 797, 796, 796, 797, 799, 798, 799, 792, 798, 797, 798, 798, 799, 799, 800, 799, 799, 797), start=1
    )
)

#: All data sets by name.
ENTRIES: dict[str, Entry] = {
    "breast_cancer": Entry(
        "Wisconsin diagnostic breast cancer, 30 measurements of cell nuclei; +1 = benign",
        "binary",
        "sklearn.datasets.load_breast_cancer",
        (_built_in("load_breast_cancer", 569, 30, {0: 212, 1: 357}),),
        positive=1,
        standardize=True,
    ),
    "digits": Entry(
        "handwritten digits as 8 x 8 grey values",
        "multiclass",
        "sklearn.datasets.load_digits",
        (_built_in("load_digits", 1_797, 64, dict(enumerate((178, 182, 177, 183, 181, 182, 181, 179, 174, 180)))),),
        standardize=True,
    ),
    "wine": Entry(
        "chemical analysis of wines from three growers",
        "multiclass",
        "sklearn.datasets.load_wine",
        (_built_in("load_wine", 178, 13, {0: 59, 1: 71, 2: 48}),),
        standardize=True,
    ),
    "diabetes": Entry(
        "progression of diabetes after a year, from ten measurements",
        "regression",
        "sklearn.datasets.load_diabetes",
        (_built_in("load_diabetes", 442, 10, (25.0, 346.0)),),
        standardize=True,
    ),
    "ijcnn1": Entry(
        "IJCNN 2001 challenge, firings of a combustion engine; +1 = the rare class, a tenth of the rows",
        "binary",
        _LIBSVM_SOURCE,
        (
            Origin(
                {
                    "train": _libsvm("ijcnn1/ijcnn1.bz2", "binary/ijcnn1.bz2", 49_990, 22, {-1: 45_137, 1: 4_853}),
                    "validation": _libsvm(
                        "ijcnn1/ijcnn1.t.bz2", "binary/ijcnn1.t.bz2", 91_701, 22, {-1: 82_989, 1: 8_712}
                    ),
                },
                "the published test file is the validation part, as in the bilevel benchmark",
            ),
        ),
        positive=1,
        cuts={},
    ),
    "covtype": Entry(
        "forest cover types of 30 x 30 metre cells from maps, all rows and the labels 1 to 7",
        "multiclass",
        _UCI,
        (Origin({"train": _COVTYPE}),),
        standardize=True,
    ),
    "covtype_50k": Entry(
        "forest cover types, a stratified sample of 50,000 rows of covtype with the labels 1 to 7",
        "multiclass",
        _UCI,
        (
            Origin(
                {
                    "train": _npz(
                        "npz",
                        "covtype/covtype_50k_7class.npz",
                        50_000,
                        54,
                        {1: 18_230, 2: 24_380, 3: 3_077, 4: 236, 5: 817, 6: 1_495, 7: 1_765},
                    )
                }
            ),
        ),
        standardize=True,
    ),
    "covtype_binary": Entry(
        "forest cover types, all rows of covtype; +1 = type 2 (lodgepole pine), -1 = the other six",
        "binary",
        _UCI,
        (
            Origin({"train": Content("covtype_binary", _COVTYPE.files, 581_012, 54, {1: 297_711, 2: 283_301})}),
            Origin(
                {"train": _npz("covtype_compact", "covtype/covtype_full.npz", 581_012, 54, {1: 297_711, 2: 283_301})},
                "from a compact file, whose rows may stand in another order than in the published one",
            ),
        ),
        positive=2,
        standardize=True,
    ),
    "mnist": Entry(
        "MNIST handwritten digits, 28 x 28 grey values",
        "multiclass",
        "MNIST, https://yann.lecun.com/exdb/mnist/",
        (
            Origin(
                {
                    "train": _idx(
                        "mnist",
                        _MNIST,
                        "train",
                        60_000,
                        ("md5:6bbc9ace898e44ae57da46a324031adb", "md5:a25bea736e30d166cdddb491f175f624"),
                        dict(enumerate((5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949))),
                    ),
                    "test": _idx(
                        "mnist",
                        _MNIST,
                        "t10k",
                        10_000,
                        ("md5:2646ac647ad5339dbf082846283269ea", "md5:27ae3e4e09519cfbb04c329615203637"),
                        dict(enumerate((980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009))),
                    ),
                },
                "with the official test part",
            ),
        ),
        cuts=_IMAGES,
        n_train=20_000,
        standardize=True,
    ),
    "fashion_mnist": Entry(
        "Fashion-MNIST pictures of clothes, 28 x 28 grey values",
        "multiclass",
        "Zalando Research, https://github.com/zalandoresearch/fashion-mnist",
        (
            Origin(
                {
                    "train": _idx(
                        "fashion_mnist",
                        _FASHION,
                        "train",
                        60_000,
                        ("md5:f4a8712d7a061bf5bd6d2ca38dc4d50a", "md5:9018921c3c673c538a1fc5bad174d6f9"),
                        dict.fromkeys(range(10), 6_000),
                    ),
                    "test": _idx(
                        "fashion_mnist",
                        _FASHION,
                        "t10k",
                        10_000,
                        ("md5:8181f5470baa50b63fa0f6fddb340f0a", "md5:15d484375f8d13e6eb1aabb0c3f46965"),
                        dict.fromkeys(range(10), 1_000),
                    ),
                },
                "with the official test part",
            ),
            Origin(
                {
                    "train": _npz(
                        "npz_pool",
                        "fashion_mnist/fashion_mnist_npm.npz",
                        70_000,
                        784,
                        dict.fromkeys(range(10), 7_000),
                    )
                },
                "from an early release, one pool of 70,000 shuffled rows: its test part is not the official one",
            ),
        ),
        cuts=_IMAGES,
        n_train=20_000,
        standardize=True,
    ),
    "a9a": Entry(
        "census data of adults as indicators; +1 = earns more than 50,000 dollars a year",
        "binary",
        _LIBSVM_SOURCE,
        (
            Origin(
                {
                    "train": _libsvm("libsvm/a9a.bz2", "binary/a9a", 32_561, 123, {-1: 24_720, 1: 7_841}),
                    "test": _libsvm("libsvm/a9a.t.bz2", "binary/a9a.t", 16_281, 123, {-1: 12_435, 1: 3_846}),
                },
                "with the official test part",
            ),
        ),
        positive=1,
        cuts={"validation": 0.2},
        sparse=True,
    ),
    "w8a": Entry(
        "web pages as indicators of words; +1 = of the category, 3 % of the pages",
        "binary",
        _LIBSVM_SOURCE,
        (Origin({"train": _libsvm("libsvm/w8a.bz2", "binary/w8a", 49_749, 300, {-1: 48_270, 1: 1_479})}),),
        positive=1,
        sparse=True,
    ),
    "mushrooms": Entry(
        "mushrooms as indicators, linearly separable; +1 = label 2, edible",
        "binary",
        _LIBSVM_SOURCE,
        (Origin({"train": _libsvm("libsvm/mushrooms.bz2", "binary/mushrooms", 8_124, 112, {1: 3_916, 2: 4_208})}),),
        positive=2,
        sparse=True,
    ),
    "phishing": Entry(
        "properties of web sites; +1 = label 1, the larger class of 6,157 sites",
        "binary",
        _LIBSVM_SOURCE,
        (Origin({"train": _libsvm("libsvm/phishing.bz2", "binary/phishing", 11_055, 68, {0: 4_898, 1: 6_157})}),),
        positive=1,
    ),
    "news20": Entry(
        "counts of words in messages to twenty news groups, labels 1 to 20",
        "multiclass",
        _LIBSVM_SOURCE,
        (
            Origin(
                {
                    "train": _libsvm(
                        "libsvm/news20.bz2",
                        "multiclass/news20.bz2",
                        15_935,
                        62_061,
                        _NEWS_GROUPS,
                    )
                }
            ),
        ),
        standardize=True,
        sparse=True,
    ),
    "california": Entry(
        "median values of houses in California in dollars, of 20,640 districts (LIBSVM's cadata)",
        "regression",
        _LIBSVM_SOURCE,
        (
            Origin({"train": _libsvm("libsvm/cadata.bz2", "regression/cadata", 20_640, 8, (14_999.0, 500_001.0))}),
            Origin({"train": _npz("npz", "libsvm/cadata.npz", 20_640, 8, (14_999.0, 500_001.0))}),
        ),
        standardize=True,
    ),
    "abalone": Entry(
        "rings of abalones, which tell their age, from measurements scaled to [-1, 1]",
        "regression",
        _LIBSVM_SOURCE,
        (Origin({"train": _libsvm("libsvm/abalone_scale.bz2", "regression/abalone_scale", 4_177, 8, (1.0, 29.0))}),),
    ),
    "housing": Entry(
        "median values of houses in Boston in thousands of dollars, from features scaled to [-1, 1]",
        "regression",
        _LIBSVM_SOURCE,
        (Origin({"train": _libsvm("libsvm/housing_scale.bz2", "regression/housing_scale", 506, 13, (5.0, 50.0))}),),
    ),
    "cpusmall": Entry(
        "share of time that a computer spends in user mode, in per cent, from counters of its activity",
        "regression",
        _LIBSVM_SOURCE,
        (
            Origin({"train": _libsvm("libsvm/cpusmall.bz2", "regression/cpusmall", 8_192, 12, (0.0, 99.0))}),
            Origin({"train": _npz("npz", "libsvm/cpusmall.npz", 8_192, 12, (0.0, 99.0))}),
        ),
        standardize=True,
    ),
}
