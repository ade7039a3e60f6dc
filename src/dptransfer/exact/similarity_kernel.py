"""The fused Triton kernel: product, cap and per-class sum in one pass, with nothing written but the sums.

A program owns a block of public rows and walks over tiles of private rows, which are sorted by class. A tile
of products stays in registers: it is capped there, summed along its private rows, and added to the result. A
tile inside one class is summed whole. In one that several classes share, the columns up to the end of each
run but the last are summed once more, under a mask; the differences of these sums are the runs' own. So there
are at most (tiles + classes) sums in all, no class is padded, and class sizes are data, not something the
kernel is compiled for. Weights of rows, where there are some, multiply the capped products inside those sums,
so the number of different weights does not matter; for them there is a second variant of the kernel.

Why it is exact. Each product v is an integer of size below 2²² (float16 grid) or 2¹⁴ (int8 grid), exact in
the float32 or int32 accumulator. A float32 product becomes an integer without a conversion instruction: v +
1.5·2²³ lies in [2²³, 2²⁴], where floats are the integers, so its bits are those of 1.5·2²³ plus v. Then
clip(v, low, high) − low is clip(v − low, 0, high − low) in integers, at most 2·2047², and 256 of them stay
below 2³¹. Totals are added in int64. Products with weights, below 2³⁹, are int64 from the start.

Imported only by `exact.similarity_cuda` when it runs; without Triton the module is empty.
"""

from __future__ import annotations

try:
    import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:  # the caller asks `compute.device.require_cuda` first
    triton = None

BLOCK_PUBLIC = 128
BLOCK_PRIVATE = 256

if triton is not None:
    # plain numbers: no compiled variants of them
    _OPEN = ["count", "tiles", "classes", "low", "high", "walk"]

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def weighted_sums(capped, weight):  # type: ignore[no-untyped-def]
        """Σ along the private rows of capped products times their weights."""
        return tl.sum(capped.to(tl.int64) * weight.to(tl.int64)[None, :], axis=1)

    @triton.jit(do_not_specialize=_OPEN)  # type: ignore[untyped-decorator,unused-ignore]
    def capped_sums(  # type: ignore[no-untyped-def]
        public,
        private,
        result,
        whole,
        first_run,
        run_class,
        run_end,
        weights,
        count,
        tiles,
        classes,
        low,
        high,
        walk,
        STEPS: tl.constexpr,
        BLOCK_M: tl.constexpr,
        BLOCK_N: tl.constexpr,
        BLOCK_K: tl.constexpr,
        STAGES: tl.constexpr,
        INTEGER: tl.constexpr,
    ):
        """Add Σ clip(dot, low, high) − low to result[public row, class] for some tiles of private rows.

        `public` and `private` are tensor descriptors; `whole[t]` is the class of tile t, or −1 if it has
        several, whose runs are then `first_run[t]` to `first_run[t + 1]`; `walk` tiles belong to a program.
        `weights` has one for each private row, and zeros for what fills up the last tile, or is None.
        """
        blocks = tl.cdiv(count, BLOCK_M)
        block = tl.program_id(0) % blocks  # neighbours share their private tiles in the cache
        start = (tl.program_id(0) // blocks) * walk
        rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
        sums = result + rows.to(tl.int64) * classes
        there = rows < count
        columns = tl.arange(0, BLOCK_N)
        kind: tl.constexpr = tl.int32 if INTEGER else tl.float32
        wide: tl.constexpr = tl.int32 if weights is None else tl.int64
        for tile in range(start, tl.minimum(start + walk, tiles)):
            owner = tl.load(whole + tile)  # asked for early, so that it is there when the products are
            begin = tl.load(first_run + tile)
            end = tl.load(first_run + tile + 1)
            # Integers start at −low, which saves an instruction later.
            dots = tl.full((BLOCK_M, BLOCK_N), 0 - low if INTEGER else 0.0, dtype=kind)
            for k in tl.range(0, STEPS, num_stages=STAGES):
                p = public.load([block * BLOCK_M, k * BLOCK_K])
                x = private.load([tile * BLOCK_N, k * BLOCK_K])
                dots = tl.dot(p, x.T, dots, out_dtype=kind)
            if INTEGER:
                shifted = dots
            else:
                shifted = (dots + 12582912.0).to(tl.int32, bitcast=True) - (low + 1262485504)
            capped = tl.maximum(tl.minimum(shifted, high - low), 0)
            if weights is None:
                total = tl.sum(capped, axis=1)
            else:
                weight = tl.load(weights + tile * BLOCK_N + columns)
                total = weighted_sums(capped, weight)
            if owner >= 0:
                tl.atomic_add(sums + owner, total.to(tl.int64), mask=there, sem="relaxed")
            else:
                before = tl.zeros((BLOCK_M,), dtype=wide)
                for run in range(begin, end - 1):
                    inside = columns < tl.load(run_end + run)
                    if weights is None:
                        upto = tl.sum(tl.where(inside[None, :], capped, 0), axis=1)
                    else:
                        upto = weighted_sums(capped, tl.where(inside, weight, 0))
                    owner = tl.load(run_class + run)
                    tl.atomic_add(sums + owner, (upto - before).to(tl.int64), mask=there, sem="relaxed")
                    before = upto
                # The last run has the rest, less the zero rows that fill up the last tile, each of which
                # counts clip(0 − low, 0, high − low) where it has no weight of zero.
                rest = total - before
                if weights is None:
                    blank = tl.maximum(tl.minimum(0 - low, high - low), 0)
                    rest -= blank * (BLOCK_N - tl.load(run_end + end - 1))
                owner = tl.load(run_class + end - 1)
                tl.atomic_add(sums + owner, rest.to(tl.int64), mask=there, sem="relaxed")
