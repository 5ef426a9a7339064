"""Random problems, engines and options: every certificate holds, a lie is noticed."""

import dataclasses

import certificates
import pytest


@pytest.mark.parametrize("number", range(12))
def test_certificates_of_random_problems_hold(number):
    assert certificates.play(7, number, certificates.Tally()) is None


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 400, 50))
def test_certificates_of_more_problems_hold(first):
    for number in range(first, first + 50):
        assert certificates.play(11, number, certificates.Tally()) is None


@pytest.mark.parametrize("end", ["objective", "lower_bound", "gap"])
@pytest.mark.parametrize("family", ["chain", "classes", "lasso", "by_hand"])
def test_a_lie_is_noticed(family, end):
    number = next(k for k in range(100) if certificates.draw(7, k)[0] == family)
    _, _, case, engine, how = certificates.draw(7, number)
    result = certificates.solve(case, engine, how)
    assert certificates.judge(case, result, how["tol"]) is None
    lie = 0.1 * (abs(result.objective) + abs(result.gap) + case.problem.scale)
    if end == "gap":
        wrong = result.trace[-1]._replace(gap=result.gap + lie)
        false = dataclasses.replace(result, trace=[wrong])
    else:
        false = dataclasses.replace(result, **{end: getattr(result, end) + lie})
    assert certificates.judge(case, false, how["tol"])
