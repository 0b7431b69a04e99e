-- Length of each step from work to work, whether it counts, and its kind.
--
-- A step begins when all GPU work launched before its start is done, and ends when all work launched before its end is
-- done. The table `step_length` has the rules.
--
-- :param rank BIGINT = NULL        only this rank
-- :reads step_length
-- :column rank RANK
-- :column step STEP
-- :column start_ns BIGINT          start of the step on the CPU
-- :column end_ns BIGINT            end of the step on the CPU
-- :column evidence VARCHAR         profiler_step, annotation, loop, module, autograd, repetition or whole_trace
-- :column begin_ns BIGINT          time at which the step has started on the CPU and all work launched before is done
-- :column length_ns BIGINT         length from work to work; 0 if the step's work ended before the work of the previous
--                                  step
-- :column profiler_ns BIGINT       part of the length caused by the profiler's own work
-- :column role VARCHAR             typical, usual, warm_up, cut_off or empty
-- :column kind BIGINT              number of the kind, as in `step_kinds`; NULL for an uncounted step
-- :column stands_for BOOLEAN       the step has the median length of its kind; NULL for an uncounted step
select
    rank,
    step,
    start_ns,
    end_ns,
    evidence,
    begin_ns,
    length_ns,
    profiler_ns,
    role,
    kind,
    stands_for
from step_length
where is_asked($rank, rank)
order by rank, start_ns
