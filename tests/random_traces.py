"""Random traces of threads, streams and synchronisation."""

from __future__ import annotations

import random

from tests.trace_builder import TraceBuilder


def random_trace(seed: int, steps: int = 12) -> TraceBuilder:
    """One thread that launches work on three streams, waits now and then, and lets the GPU fall behind at times.

    Some streams wait for another one, by a CUDA event of which no record tells. Copies are from pageable memory.
    """
    pick = random.Random(seed)
    trace = TraceBuilder(rank=0)
    free = {7: 0, 20: 0, 21: 0}
    at = 0
    for step in range(steps):
        trace.step(step)
        for _ in range(pick.randint(2, 9)):
            at += pick.randint(0, 15)
            begin = at
            body = []
            for _ in range(pick.randint(0, 3)):
                at += pick.randint(0, 4)
                stream = pick.choice([7, 7, 7, 20, 21])
                if pick.random() < 0.3:
                    trace.runtime("cudaStreamWaitEvent", at, at + 1, correlation=trace.new_correlation())
                    at += 1
                    free[stream] = max(free[stream], pick.choice([0, *free.values()]))
                call, at = at, at + pick.randint(1, 6)
                begins = max(call + pick.randint(0, 8), free[stream] + pick.choice([0, 0, 1, 2, 30]))
                free[stream] = begins + pick.choice([0, 1, 5, 20, 60])
                body.append((call, at, begins, free[stream], stream))
            at += pick.randint(1, 5)
            trace.op("aten::op", begin, at)
            for call, until, begins, ends, stream in body:
                trace.launches(f"kernel{pick.randint(0, 3)}", begins, ends, at=call, until=until, stream=stream)
            waits = pick.random()
            begin = at = at + pick.randint(0, 3)
            if waits < 0.12:
                at = max(at, *free.values()) + pick.randint(1, 4)
                trace.runtime("cudaDeviceSynchronize", begin, at, correlation=trace.new_correlation())
            elif waits < 0.24:
                at = max(at, free[7]) + pick.randint(1, 4)
                trace.runtime("cudaStreamSynchronize", begin, at, correlation=trace.new_correlation())
            elif waits < 0.36:
                begins = max(begin + 2, free[7])
                free[7] = begins + pick.randint(1, 9)
                # Every other call returns before its copy ends, though it waited for its start.
                at = free[7] + pick.randint(0, 3) if pick.random() < 0.5 else pick.randint(begins + 1, free[7])
                number = trace.new_correlation()
                trace.runtime("cudaMemcpyAsync", begin, at, correlation=number)
                trace.copy(begins, free[7], kind="DtoH", correlation=number)
        at += 1
    trace.annotation("the end", at, at + 1)
    return trace
