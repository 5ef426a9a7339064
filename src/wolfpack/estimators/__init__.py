"""scikit-learn estimators over the problems."""
