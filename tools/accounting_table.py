"""Print the table of docs/accounting.md: dummies that the embedded example needs, by three ways of counting."""

from __future__ import annotations

from distp import Identity, RestrictedLaplace, Tupling, class_dummies, delta, theorem3_epsilon
from distp.data import load_example

DELTA, MOST = 0.001, 1 << 20


def least(enough: object) -> int:
    """Return the least number of dummies for which ``enough(k)`` holds, by doubling and halving."""
    assert callable(enough)
    high = 1
    while not enough(high):
        high *= 2
        if high > MOST:
            raise SystemExit("more than a million dummies")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


if __name__ == "__main__":
    example = load_example()
    regions = example.regions()
    pair = example.pair(regions)
    bases = {
        "true region": Identity(regions.inputs, regions),
        "restricted Laplace, 3.6/km, 1.12 km": RestrictedLaplace(regions.inputs, 3.6, 1.12, regions),
    }
    print("| base | ε | Theorem 3 | class bound | this pair exactly |\n|---|---|---|---|---|")
    for name, base in bases.items():
        beta = max(base.lift(law).max() for law in (pair.p, pair.q))
        for epsilon in (1.0, 0.5, 0.2):
            theorem = least(lambda k: theorem3_epsilon(k, len(regions), beta, DELTA) <= epsilon)  # noqa: B023
            bound = class_dummies(epsilon, DELTA, beta * len(regions))
            exact = least(lambda k: delta(Tupling(base, k), pair.p, pair.q, epsilon).upper <= DELTA)  # noqa: B023
            print(f"| {name} | {epsilon:g} | {theorem:,} | {bound:,} | {exact:,} |")
