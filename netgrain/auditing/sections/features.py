"""What the linear rule loses when weak directions are dropped, and for tables how much each feature moves."""

from __future__ import annotations

from typing import Any

from netgrain.auditing.sections.contract import Section, Subject, estimate, number


def measure(subject: Subject) -> dict[str, Any]:
    """The key features: rows of dropped directions, and named features of a table."""
    axes, found = subject.axes, subject.relevance
    total = found.total_variance
    rows = [
        {
            "directions": axes.d - k,
            "variance": number(1 - found.variance[:k].sum() / total),
            "accuracy": estimate(accuracy),
        }
        for k, accuracy in sorted(found.by_count.items(), reverse=True)
    ]
    return {"features": {"dropped": rows, "named": _named(subject)}}


def _named(subject: Subject) -> list[dict[str, Any]] | None:
    """Features with their shares of the variance along the gradients, the largest first; None for other inputs."""
    X = subject.X
    if not subject.features and X.dim() != 2:
        return None
    names = subject.features or tuple(f"feature {i}" for i in range(X.shape[1]))
    if subject.G.truncated:
        return None  # the diagonal of G is not known
    share = subject.G.form.diagonal() * X.flatten(1).double().var(0)
    share = share / share.sum()
    return [{"name": names[i], "share": number(share[i])} for i in share.argsort(descending=True).tolist()]


SECTION = Section(order=50, measure=measure, title="Features")
