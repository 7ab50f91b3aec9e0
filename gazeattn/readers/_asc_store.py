"""Columns that grow while a file is read, without a second copy of them at the end."""

from __future__ import annotations

import numpy as np


class Store:
    """Numbers of all rows so far, by column; -1 or NaN where a row has no such column.

    Space is taken for `expected` rows at once. The system gives memory only to what is written,
    so that too large a guess costs nothing; many small pieces that are joined at the end would
    stand beside the result.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._columns: dict[str, np.ndarray] = {}
        self._capacity = 0

    @property
    def names(self) -> list[str]:
        """Columns in the order in which they were met."""
        return list(self._columns)

    def expect(self, n_rows: int) -> None:
        """Take space for so many rows more."""
        if self.n_rows + n_rows > self._capacity:
            self._capacity = self.n_rows + n_rows
            for name, old in self._columns.items():
                new = np.empty(self._capacity, old.dtype)
                new[: self.n_rows] = old[: self.n_rows]
                self._columns[name] = new

    def add(self, n: int, columns: dict[str, np.ndarray]) -> None:
        """Append `n` rows."""
        if self.n_rows + n > self._capacity:
            self.expect(max(n, self._capacity // 2))
        for name in columns:
            if name in self._columns:
                continue
            column = np.empty(self._capacity, columns[name].dtype)
            column[: self.n_rows] = _absent(column)
            self._columns[name] = column
        rows = slice(self.n_rows, self.n_rows + n)
        for name, column in self._columns.items():
            column[rows] = columns.get(name, _absent(column))
        self.n_rows += n

    def take(self, name: str) -> np.ndarray:
        """Return a column, shape (n_rows,), and forget it."""
        return self._columns.pop(name)[: self.n_rows]


def _absent(column: np.ndarray) -> float:
    return np.nan if column.dtype.kind == "f" else -1
