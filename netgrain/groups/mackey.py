"""Semidirect products N ⋊ H of an abelian group N, by Mackey's little groups.

H permutes the characters of N, (hψ)(n) = ψ(h⁻¹n). For one ψ of every orbit, its stabiliser S ⊂ H, representatives t_i
of the cosets H/S and an irrep σ of S,

    ρ(n, h)[i, j] = (t_iψ)(n) σ(t_i⁻¹ h t_j)   if t_i⁻¹ h t_j ∈ S, else 0        (dimension [H : S] · dim σ)

so that with F = FFT of f over N, at every h,

    f̂(ρ)[i, j] = Σ_{s ∈ S} F(t_iψ, t_i s t_j⁻¹) σ(s):

an FFT, one permutation of the n numbers, and small matrix products. Orbits with the same stabiliser are done at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from netgrain.groups.axioms import Ints
from netgrain.groups.irreps import Complex
from netgrain.groups.structure import Abelian, AnyStructure, Semidirect, Table
from netgrain.groups.transforms import FFT, Constant, Gathered, by_dimension, permuted

IrrepsOf = Callable[[AnyStructure], list[Complex]]


@dataclass(frozen=True)
class _Orbits:
    """All orbits of characters with one stabiliser."""

    characters: Ints  # (orbits, q): t_iψ
    stabiliser: Ints  # (s,) elements of H
    cosets: Ints  # (q,) representatives t_i
    little: tuple[Complex, ...]  # irreps of the stabiliser by dimension, (s, count, d, d)
    forward: Constant  # (s, s): all entries of all little irreps
    back: Constant  # its inverse

    @property
    def shape(self) -> tuple[int, int, int, int]:
        orbits, q = self.characters.shape
        return orbits, q, q, len(self.stabiliser)


class Mackey(Gathered):
    """FFT over N, a permutation, and the small transforms of the little groups."""

    def __init__(self, group: Semidirect, irreps_of: IrrepsOf) -> None:
        assert isinstance(group.normal, Abelian)
        self.group, self.order = group, group.order
        self.fft = FFT(group.normal.moduli)
        self._H = group.acting.order
        self._types = _types(dual_action(group), group.acting, irreps_of)
        index = np.concatenate([_places(t, group.acting).ravel() for t in self._types])
        self._index = torch.from_numpy(index)
        self._back = torch.from_numpy(np.argsort(index))
        self._sources = [(t, i) for t, orbits in enumerate(self._types) for i in range(len(orbits.little))]
        self._arrange(self._entries())

    def _entries(self) -> list[Ints]:
        """Where the entries of each piece are: of every type (orbit, i, j) by (little irrep, a, b)."""
        places, start = [], 0
        for orbits in self._types:
            count, q, _, s = orbits.shape
            rows = start + np.arange(count * q * q).reshape(count, 1, q, 1, q, 1) * s
            column = 0
            for little in orbits.little:
                _, k, d, _ = little.shape
                entry = rows + column + np.arange(k * d * d).reshape(1, k, 1, d, 1, d)
                places.append(entry.reshape(count * k, q * d, q * d))
                column += k * d * d
            start += count * q * q * s
        return places

    def raw(self, f: Tensor) -> Tensor:
        over_normal = self.fft.along(f.unflatten(-1, (-1, self._H)), -2).flatten(-2)
        return self._small(permuted(over_normal, self._index, self._back), [t.forward for t in self._types])

    def back(self, entries: Tensor) -> Tensor:
        moved = self._small(entries, [t.back for t in self._types])
        over_normal = permuted(moved, self._back, self._index)
        return self.fft.along(over_normal.unflatten(-1, (-1, self._H)), -2, back=True).flatten(-2)

    def _small(self, x: Tensor, matrices: Sequence[Constant]) -> Tensor:
        """Every type by the matrix of its little group."""
        parts = []
        for orbits, W, part in zip(
            self._types, matrices, x.split([math.prod(t.shape) for t in self._types], -1), strict=True
        ):
            s = len(orbits.stabiliser)
            parts.append(part if s == 1 else W.times(part.unflatten(-1, (-1, s))).flatten(-2))
        return torch.cat(parts, dim=-1)

    def characters(self, elements: Ints) -> list[Complex]:
        n, h = elements // self._H, elements % self._H
        pieces = []
        for t, i in self._sources:
            orbits = self._types[t]
            traces = np.trace(orbits.little[i], axis1=-2, axis2=-1)  # (s, count)
            total = np.zeros((len(orbits.characters), traces.shape[1], len(elements)), dtype=np.complex128)
            for coset, psi in zip(orbits.cosets, orbits.characters.T, strict=True):
                place = self._in_stabiliser(orbits, np.full_like(h, coset), h, np.full_like(h, coset))
                inside = np.flatnonzero(place >= 0)
                values = self.fft.values(psi, n[inside])
                total[:, :, inside] += values[:, None] * traces[place[inside]].T[None]
            pieces.append(total.reshape(-1, len(elements)))
        return self._joined(pieces)

    def matrices(self, size: int, slot: int, elements: Ints) -> Complex:
        piece, place = self._piece(size, slot)
        t, i = self._sources[piece]
        orbits = self._types[t]
        orbit, irrep = divmod(place, orbits.little[i].shape[1])
        n, h = elements // self._H, elements % self._H
        q, d = len(orbits.cosets), orbits.little[i].shape[-1]
        out = np.zeros((len(elements), q, d, q, d), dtype=np.complex128)
        psi = self.fft.values(orbits.characters[orbit], n)  # (q, elements)
        for row, t_i in enumerate(orbits.cosets):
            for column, t_j in enumerate(orbits.cosets):
                s = self._in_stabiliser(orbits, np.full_like(h, t_i), h, np.full_like(h, t_j))
                inside = np.flatnonzero(s >= 0)
                sigma = orbits.little[i][s[inside], irrep]
                out[inside, row, :, column, :] = psi[row, inside, None, None] * sigma
        return out.reshape(len(elements), q * d, q * d)

    def _in_stabiliser(self, orbits: _Orbits, t_i: Ints, h: Ints, t_j: Ints) -> Ints:
        """Place of t_i⁻¹ h t_j in the stabiliser, −1 if it is not there."""
        H = self.group.acting
        where = np.full(self._H, -1)
        where[orbits.stabiliser] = np.arange(len(orbits.stabiliser))
        return np.asarray(where[H.multiply(H.multiply(H.inverse[t_i], h), t_j)])


def dual_action(group: Semidirect) -> Ints:
    """How H permutes the characters of N: (|H|, |N|), hψ_k = ψ_{dual[h, k]}."""
    N = group.normal
    assert isinstance(N, Abelian)
    moduli = np.array(N.moduli)
    common = math.lcm(*N.moduli)
    steps = N.index(np.eye(len(moduli), dtype=np.int64))  # the unit vectors
    moved = N.coordinates(group.action[group.acting.inverse][:, steps])  # (|H|, i, j): (h⁻¹e_i)_j
    k = N.coordinates(np.arange(N.order))
    phases = np.einsum("kj,hij->hki", k * (common // moduli), moved)  # ψ_k(h⁻¹e_i), in units of 2π/common
    return N.index(phases // (common // moduli))


def _types(dual: Ints, H: AnyStructure, irreps_of: IrrepsOf) -> list[_Orbits]:
    """Orbits by stabiliser; the representative of an orbit is the one whose stabiliser comes first."""
    keys = np.packbits(dual == np.arange(dual.shape[1]), axis=0)  # (bytes, |N|): which h fix ψ
    rank = np.unique(-keys.astype(np.int64), axis=1, return_inverse=True)[1].ravel()
    orbit = dual.min(axis=0)
    first = np.lexsort((np.arange(len(orbit)), rank, orbit))
    representatives = first[np.unique(orbit[first], return_index=True)[1]]
    found = []
    for kind in np.unique(rank[representatives]):
        psis = np.sort(representatives[rank[representatives] == kind])
        stabiliser = np.flatnonzero(dual[:, psis[0]] == psis[0])
        coset = H.multiply(np.arange(H.order)[:, None], stabiliser[None, :]).min(axis=1)
        cosets = np.unique(coset)
        table = np.searchsorted(stabiliser, H.multiply(stabiliser[:, None], stabiliser[None, :]))
        little = by_dimension(irreps_of(Table(table)))
        W = np.concatenate([w.reshape(len(stabiliser), -1) for w in little], axis=1)
        # d/n = q·dim σ/(|N||H|), of which 1/|N| is in the inverse FFT and |H| = q|S|
        weights = np.concatenate([np.full(w[0].size, w.shape[-1] / len(stabiliser)) for w in little])
        forward, back = Constant(W), Constant(W.conj().T * weights[:, None])
        found.append(_Orbits(dual[cosets][:, psis].T, stabiliser, cosets, tuple(little), forward, back))
    return found


def _places(orbits: _Orbits, H: AnyStructure) -> Ints:
    """Index into FFT(f)[ψ, h] of (t_iψ, t_i s t_j⁻¹): (orbits, q, q, s)."""
    t, s = orbits.cosets, orbits.stabiliser
    h = H.multiply(H.multiply(t[:, None, None], s[None, None, :]), H.inverse[t][None, :, None])
    return np.asarray(orbits.characters[:, :, None, None] * H.order + h[None])
