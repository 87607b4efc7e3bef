"""Latin squares: everything is shown equally often in each place, and after each other thing."""

from __future__ import annotations


def balanced_orders(size: int) -> list[list[int]]:
    """Williams' design (1949): rows are orders of ``size`` things.

    Each thing stands in each place equally often, and each follows each other equally often. An odd number of things
    takes twice as many rows.

    >>> balanced_orders(4)
    [[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]]
    >>> len(balanced_orders(7)), balanced_orders(1)
    (14, [[0]])
    """
    first = [0]
    for step in range(1, size):
        first.append((first[-1] + (step if step % 2 else -step)) % size)
    rows = [[(thing + shift) % size for thing in first] for shift in range(size)]
    return rows if size % 2 == 0 or size == 1 else rows + [row[::-1] for row in rows]
