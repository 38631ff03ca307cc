"""Rank decisions: singular values against one tolerance, with a record of how clear the decisions were."""

from __future__ import annotations

import numpy as np

TOLERANCE = 1e-9  # singular values below this times the size of the (scaled) matrices count as zero


class Ranks:
    """Ranks and subspaces of matrices whose entries are scaled to about one.

    ``margin`` is the distance of all singular values met so far to the threshold, as a factor: 1e3 says that no rank
    would change if the tolerance were a thousand times larger or smaller.
    """

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self.tolerance = tolerance
        self.margin = np.inf

    def svd(self, B: np.ndarray) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """Rank, left vectors (m, m), singular values, right vectors (n, n) as columns."""
        m, n = B.shape
        if not B.size:
            return 0, np.eye(m), np.zeros(0), np.eye(n)
        U, s, Vt = np.linalg.svd(B)
        threshold = self.tolerance * max(1.0, float(s[0]))
        rank = int((s > threshold).sum())
        if rank:
            self.margin = min(self.margin, float(s[rank - 1]) / threshold)
        if rank < s.size and s[rank] > 0:
            self.margin = min(self.margin, threshold / float(s[rank]))
        return rank, U, s, Vt.T

    def rank(self, B: np.ndarray) -> int:
        return self.svd(B)[0]

    def kernel(self, B: np.ndarray) -> np.ndarray:
        """Orthonormal columns that span {x: B x = 0}."""
        rank, _, _, V = self.svd(B)
        return V[:, rank:]

    def corange(self, B: np.ndarray) -> np.ndarray:
        """Orthonormal columns that span {z: z^T B = 0}."""
        rank, U, _, _ = self.svd(B)
        return U[:, rank:]

    def range(self, B: np.ndarray) -> np.ndarray:
        """Orthonormal columns that span the columns of B."""
        rank, U, _, _ = self.svd(B)
        return U[:, :rank]

    def common(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Orthonormal columns that span range X and range Y have in common; X and Y have orthonormal columns."""
        pairs = self.kernel(np.hstack([X, -Y]))
        return self.range(X @ pairs[: X.shape[1]])

    def complement(self, X: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Orthonormal columns of range X orthogonal to ``part``, a subspace of it; both have orthonormal columns."""
        return X @ self.kernel(part.T @ X)
