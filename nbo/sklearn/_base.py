"""What estimators share that tune the penalties of a linear model: the settings and `fit`."""

from __future__ import annotations

import abc
import warnings
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from nbo._clock import Timer
from nbo._validation import flag, integer, real
from nbo.lower_level import LowerSolution
from nbo.problems import CrossValidation
from nbo.problems._linear import PenalisedLinearModel
from nbo.sklearn._criterion import Criterion, criterion, validation_criterion
from nbo.sklearn._given import checked_verbose, require_penalty, require_prior, require_random_state
from nbo.sklearn._names import PenaltyNames
from nbo.sklearn._report import TuningReport, at_bounds, listed, stage_report, switched_off
from nbo.sklearn._rows import GivenRows, stacked, training_rows, validation_rows
from nbo.sklearn._running import Follower
from nbo.sklearn._stages import (
    Settings,
    Stage,
    fold_mean,
    prior_scale,
    refitted,
    tune_finer,
    tune_shared,
)
from nbo.sklearn._units import units_of

Array = npt.NDArray[Any]

#: The problems know no bounds of their own: the stages have theirs, and the final fit needs none.
UNBOUNDED = (-np.inf, np.inf)

#: The least tolerance that rounding allows, by the type of the data.
LEAST_TOL = {np.dtype(np.float64): 0.0, np.dtype(np.float32): 1e-3}


class PenaltyTuner(BaseEstimator, abc.ABC):
    """A linear model whose penalties are tuned on held-out rows; `BilevelLogisticRegression` has the parameters."""

    #: What a row of coefficients belongs to, as in "class" and "class-feature".
    _outputs: ClassVar[str]
    #: What the problems call it.
    _problem_outputs: ClassVar[str]
    #: How y is checked.
    _y_checks: ClassVar[dict[str, Any]]
    _loss_name: ClassVar[str]
    #: What scikit-learn calls the strength of the penalty.
    _strength: ClassVar[str]
    #: Of the command, which fits several estimators to the same rows.
    _follower: Follower | None = None

    def __init__(
        self,
        penalty: Any = "shared",
        *,
        cv: Any = 5,
        refit: bool = True,
        penalty_prior: Any = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 100,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.penalty = penalty
        self.cv = cv
        self.refit = refit
        self.penalty_prior = penalty_prior
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @abc.abstractmethod
    def _encoded(self, rows: GivenRows, validation: GivenRows | None) -> tuple[GivenRows, GivenRows | None]:
        """Return the rows with labels or targets as the problem reads them."""

    @abc.abstractmethod
    def _problem(self, rows: GivenRows) -> PenalisedLinearModel:
        """Return the problem with one shared penalty whose training rows are all rows, without bounds."""

    @abc.abstractmethod
    def _set_coefficients(self, W: Array, intercept: Array, penalties: Array, dtype: np.dtype[Any]) -> None:
        """Set `coef_`, `intercept_` and `penalty_` from what the problem calls them."""

    @abc.abstractmethod
    def _set_strength(self, n_train: float) -> None:
        """Set the strengths of the penalties as scikit-learn calls them."""

    def _names_of_outputs(self) -> Any:
        """Return what the rows of coefficients belong to, in order."""
        return range(1)

    def _noise_variance(self, loss: float, n_outputs: int) -> float:
        """Return what makes the criterion and its prior comparable."""
        return 1.0

    def _reported_loss(self, loss: float) -> float:
        """Return a loss of the problem in the units of y."""
        return loss

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Tune the penalties, and fit the model with them.

        Parameters
        ----------
        X : array_like or sparse, shape (n, p)
            The rows.
        y : array_like, shape (n,)
            Their labels or targets; several targets are (n, q).
        sample_weight : array_like, shape (n,), optional
            Weights of the rows; a whole number counts as so many copies, and rows of weight zero are dropped first.
        X_val, y_val : array_like, optional
            Validation rows. `cv` is then ignored: all of `X` are training rows, and these judge the penalties.
        sample_weight_val : array_like, optional
            Weights of the validation rows.

        Returns
        -------
        object
            The estimator itself.
        """
        timer = Timer()
        settings = self._checked_settings()
        rows = training_rows(self, X, y, sample_weight, **self._y_checks)
        validation = validation_rows(self, X_val, y_val, sample_weight_val, rows.A.dtype, **self._y_checks)
        encoded, encoded_val = self._encoded(rows, validation)
        if validation is None:
            chosen = criterion(self.cv, rows, self._labels_to_stratify(encoded), self.random_state)
        else:
            chosen = validation_criterion(rows.A.shape[0], validation.A.shape[0])
        self._units = units_of(encoded.A, encoded.weights, self.fit_intercept)
        every = stacked(encoded, encoded_val)
        every = every._replace(A=self._units.features(every.A), weights=self._units.weights(every.weights))
        chosen = self._judged(chosen, every.b)
        whole = self._problem(every)
        require_penalty(self.penalty, self._outputs, (whole.n_outputs, whole.n_features))
        problem = _divided(whole, chosen)
        self._tune(problem, chosen, settings, timer)
        return self

    def _judged(self, chosen: Criterion, b: Array) -> Criterion:
        """Return the criterion without folds that cannot be judged."""
        return chosen

    def _labels_to_stratify(self, rows: GivenRows) -> Array | None:
        return None

    def _checked_settings(self) -> Settings:
        require_penalty(self.penalty, self._outputs)
        require_prior(self.penalty_prior)
        require_random_state(self.random_state)
        flag("refit", self.refit)
        flag("fit_intercept", self.fit_intercept)
        tol, max_iter = real("tol", self.tol, positive=True), integer("max_iter", self.max_iter, minimum=1)
        return Settings(tol, max_iter, checked_verbose(self.verbose))

    def _tune(self, problem: CrossValidation, chosen: Criterion, settings: Settings, timer: Timer) -> None:
        n_train = float(np.mean([part._rows.total for part in problem.problems]))
        follower = self._follower or Follower()
        settings = settings._replace(tol=max(settings.tol, LEAST_TOL[problem.dtype]), progress=follower.progress)
        shared = follower.shared = follower.shared or tune_shared(problem, n_train, settings)
        finer_problem = self._finer(problem, shared)
        finer = None
        if finer_problem is not None:
            finer, problem = tune_finer(finer_problem, problem, shared, settings), finer_problem
        last = finer or shared
        self._set_model(problem, last, n_train, settings)
        self.n_iter_ = shared.result.nit + (finer.result.nit if finer else 0)
        self.result_ = last.result
        self.validation_path_ = {stage.name: dict(stage.path) for stage in (shared, finer) if stage}
        # not in place: another fit may start from the same stage
        self.validation_path_["shared"]["x"] = shared.path["x"] + self._units.log_penalty
        self.report_ = self._report(problem, chosen, shared, finer, timer.seconds(), n_train)
        self._warn(shared, finer, settings.tol)

    def _finer(self, problem: CrossValidation, shared: Stage) -> CrossValidation | None:
        """Return the criterion of finer penalties under a prior around the shared one, if they are asked for."""
        word = self._problem_penalty(problem.problem.n_outputs)
        if isinstance(word, str) and word == "shared":
            return None
        scale = prior_scale(self.penalty_prior, problem.n_folds, not (isinstance(word, str) and "feature" in word))
        prior = None if scale is None else (float(shared.result.x[0]), scale)
        noise = self._noise_variance(shared.loss, problem.problem.n_outputs)
        finer = problem.penalised(word, prior, noise_variance=noise, bounds=UNBOUNDED)
        if finer.dim_x == 1:
            return None
        if scale is None:
            warnings.warn(
                f"penalty_prior: found None; {finer.dim_x} penalties without a prior overfit the rows that are held "
                "out. Keep 'auto', or judge the model on other rows",
                stacklevel=4,
            )
        return finer

    def _problem_penalty(self, n_outputs: int) -> Any:
        """Return the penalty in the words of the problem, where a single output has no penalties of its own."""
        if not isinstance(self.penalty, str):
            return self.penalty
        if n_outputs == 1:
            return {self._outputs: "shared", f"{self._outputs}-feature": "feature"}.get(self.penalty, self.penalty)
        return self.penalty.replace(self._outputs, self._problem_outputs)

    def _set_model(self, problem: CrossValidation, last: Stage, n_train: float, settings: Settings) -> None:
        x, y = last.result.x, last.y
        if self.refit:
            fitted = refitted(problem, x, y, n_train)
            self._warn_of_inexact_fit(fitted, settings.tol)
            model = fitted.y
        else:
            model = fold_mean(problem, x, y)
        whole = problem.problem
        self.log_penalty_ = x + self._units.log_penalty
        coef, intercept = self._units.coefficients(*whole.coefficients(model))
        penalties = np.exp(self.log_penalty_)[whole._groups]
        self._set_coefficients(coef, intercept, penalties, whole.dtype)
        self._set_strength(n_train * self._units.weight)

    def _report(
        self,
        problem: CrossValidation,
        chosen: Criterion,
        shared: Stage,
        finer: Stage | None,
        seconds: float,
        n_train: float,
    ) -> TuningReport:
        last = finer or shared
        names = self._names(problem, finer is not None)
        at_lower, at_upper = at_bounds(last, names)
        return TuningReport(
            criterion=chosen.text,
            n_folds=problem.n_folds,
            n_rows=problem.problem.A.shape[0],
            n_held_out=sum(held_out.size for _, held_out in problem.folds),
            loss_name=self._loss_name,
            strength=self._named_strength(float(shared.result.x[0]), n_train),
            untuned_name=self._named_strength(shared.start, n_train),
            untuned_loss=self._reported_loss(shared.start_loss),
            shared_loss=self._reported_loss(shared.loss),
            finer_loss=None if finer is None else self._reported_loss(finer.loss),
            penalty=repr(self.penalty) if isinstance(self.penalty, str) else "in groups",
            n_penalties=problem.dim_x,
            switched_off=switched_off(finer, shared, names),
            at_upper=at_upper,
            at_lower=at_lower,
            stages=tuple(stage_report(stage) for stage in (shared, finer) if stage),
            seconds=seconds,
        )

    @abc.abstractmethod
    def _strength_of(self, x: Any, n_train: float) -> Any:
        """Return log penalties as scikit-learn's strengths."""

    def _named_strength(self, x: float, n_train: float) -> str:
        strength = self._strength_of(x + self._units.log_penalty, n_train * self._units.weight)
        return f"{self._strength} = {strength:.3g}"

    def _names(self, problem: CrossValidation, finer: bool) -> PenaltyNames:
        word = self._problem_penalty(problem.problem.n_outputs) if finer else "shared"
        known = {"shared": "shared", "feature": "feature", self._problem_outputs: "outputs"}
        known[f"{self._problem_outputs}-feature"] = "entry"
        kind = known[word] if isinstance(word, str) else "groups"
        features = getattr(self, "feature_names_in_", None)
        return PenaltyNames(kind, problem.dim_x, features, self.n_features_in_, self._names_of_outputs())

    def _warn(self, shared: Stage, finer: Stage | None, tol: float) -> None:
        """Warn of stages that have not converged, and of penalties at their lower bound."""
        for stage, report in zip([stage for stage in (shared, finer) if stage], self.report_.stages, strict=True):
            if not report.success:
                # rounding, or oracles that are wrong by it, end a run as stalled: more iterations are no use then
                stalled = report.status == "stalled"
                advice = "or accept a larger tol: rounding limits it" if stalled else "raise max_iter or tol"
                _warn(
                    f"the {stage.name} stage has not converged: {report.status} after {report.n_iter} iterations, with "
                    f"a projected hypergradient of {report.hypergrad_norm:.2g} against {tol:.2g} times the criterion "
                    f"at its start. Scale the features (StandardScaler), {advice}"
                )
        if shared.result.x[0] <= shared.lower + 1e-2 or self.report_.at_lower:
            whose = listed(self.report_.at_lower) if self.report_.at_lower else "all coefficients"
            _warn(
                f"the penalty of {whose} is at its lower bound: the held-out rows ask for a weaker one still, as when "
                "a few features separate the classes or there is no noise. The model is finite, and its size is set "
                "by the bound. Scale the features (StandardScaler), look for a feature that gives the answer away, or "
                "hold out more rows"
            )

    def _warn_of_inexact_fit(self, fitted: LowerSolution, tol: float) -> None:
        if not fitted.success and fitted.grad_norm > tol:
            _warn(f"the final fit ended early ({fitted.message}). Scale the features (StandardScaler)")


def _warn(text: str) -> None:
    warnings.warn(text, ConvergenceWarning, stacklevel=5)


def _divided(whole: PenalisedLinearModel, chosen: Criterion) -> CrossValidation:
    """Return the criterion as a problem; what is wrong with its parts is said of `cv`."""
    try:
        return CrossValidation(whole, chosen.pairs)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("folds: ", "cv: ", 1)) from error
