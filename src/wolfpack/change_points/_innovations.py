"""The loop of `evidence`: how well noise is predicted from the rows before it."""

import numpy as np

from wolfpack.kernels.compile import entry

RIDGE = 1e-9  # of the mean square, so that columns of zeros have a prediction too


@entry
def innovations(rest, n_fitted, losses):
    """Write the loss per row of each column, for the best order of 0, 1, ..., top.

    `losses` has top + 1 rows, for work. The errors of all orders come from one Cholesky
    factor of the products of the lagged columns, in which the row itself is the last.
    """
    n, d = rest.shape
    top = losses.shape[0] - 1
    m = n - top
    products, factor = np.empty((top + 1, top + 1)), np.zeros((top + 1, top + 1))
    for c in range(d):
        for i in range(top + 1):
            for j in range(i + 1):
                total = 0.0
                for t in range(top, n):
                    total += rest[t - i, c] * rest[t - j, c]
                products[i, j] = products[j, i] = total
        floor = 1e-12 * max(products[0, 0], 1e-300)
        small, left = 0.0, products[0, 0]
        for i in range(1, top + 1):
            small += RIDGE * products[i, i] / top
        small += 1e-300
        for p in range(top + 1):
            if p:  # take off what lag p explains beside the lags before it
                for j in range(1, p + 1):
                    total = products[p, j] + (small if p == j else 0.0)
                    for k in range(1, j):
                        total -= factor[p, k] * factor[j, k]
                    if p == j:
                        factor[p, p] = np.sqrt(max(total, small))
                    else:
                        factor[p, j] = total / factor[j, j]
                total = products[p, 0]
                for k in range(1, p):
                    total -= factor[0, k] * factor[p, k]
                factor[0, p] = total / factor[p, p]
                left -= factor[0, p] ** 2
            free = max(m - p - n_fitted, 1)
            losses[p, c] = np.log(max(left, floor) / m) + 2.0 * p / free
        for p in range(1, top + 1):
            losses[0, c] = min(losses[0, c], losses[p, c])
