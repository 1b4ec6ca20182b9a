"""Classifiers under constraints for scikit-learn, each with multipliers and a certificate.

`NeymanPearsonClassifier` keeps false positives under a bound, `FairLogisticRegression` the gap between groups. Needs
the extra `sklearn`.
"""

try:
    from sklearn.utils.validation import validate_data as _validate_data  # noqa: F401
except ImportError as error:
    raise ImportError("auglag.sklearn needs scikit-learn 1.6 or newer: pip install 'auglag[sklearn]'") from error

from auglag.sklearn.calibration import Calibration, negatives_needed
from auglag.sklearn.fairness import FairLogisticRegression
from auglag.sklearn.metrics import demographic_parity_gap, equal_opportunity_gap, equalized_odds_gap
from auglag.sklearn.neyman_pearson import NeymanPearsonClassifier

__all__ = [
    "Calibration",
    "FairLogisticRegression",
    "NeymanPearsonClassifier",
    "demographic_parity_gap",
    "equal_opportunity_gap",
    "equalized_odds_gap",
    "negatives_needed",
]
