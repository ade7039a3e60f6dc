"""Counts of requests, inputs and seconds in the text format of Prometheus; nothing of any input."""

from __future__ import annotations

from collections import Counter
from threading import Lock

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """What a server has done since it was started."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds, self._inputs = 0.0, 0

    def add(self, route: str, status: int, seconds: float, inputs: int) -> None:
        """One request that was answered."""
        with self._lock:
            self._requests[route, status] += 1
            self._buckets[next((edge for edge in _SECONDS if seconds <= edge), float("inf"))] += 1
            self._seconds += seconds
            self._inputs += inputs

    def text(self, batches: int) -> str:
        """All counts, with that of the batches that were scored."""
        with self._lock:
            requests, below, total = sorted(self._requests.items()), [], 0
            for edge in (*_SECONDS, float("inf")):
                total += self._buckets[edge]
                below.append(f'{{le="{"+Inf" if edge == float("inf") else edge}"}} {total}')
            seconds, inputs = self._seconds, self._inputs
        name = "dptransfer_request"
        lines = [f"# TYPE {name}s_total counter"]
        for (route, status), count in requests:
            lines.append(f'{name}s_total{{route="{route}",status="{status}"}} {count}')
        lines += [f"# TYPE {name}_seconds histogram", *(f"{name}_seconds_bucket{one}" for one in below)]
        lines += [f"{name}_seconds_sum {seconds:.6f}", f"{name}_seconds_count {total}"]
        for what, count in (("inputs", inputs), ("batches", batches)):
            lines += [f"# TYPE dptransfer_{what}_total counter", f"dptransfer_{what}_total {count}"]
        return "\n".join(lines) + "\n"
