-- How long each step takes from work to work, whether the step counts, and its kind.
--
-- A step begins when all GPU work launched before the step is done, and ends when all work launched before its end is
-- done. The table `step_length` has the rules.
--
-- :param rank BIGINT = NULL        only this rank
-- :reads step_length
-- :column rank BIGINT              process rank
-- :column step BIGINT              number of the step
-- :column start_ns BIGINT          its start on the CPU
-- :column end_ns BIGINT            its end on the CPU
-- :column evidence VARCHAR         profiler_step, annotation, loop, module, autograd, repetition or whole_trace
-- :column begin_ns BIGINT          when the step starts on the CPU and all work launched before is done
-- :column length_ns BIGINT         its time from work to work; 0 if its work was over before that of the step before
-- :column role VARCHAR             typical, usual, warm_up, cut_off or empty
-- :column kind BIGINT              number of its kind, as in `step_kinds`; NULL for a step that does not count
-- :column stands_for BOOLEAN       the step has the median length of its kind; NULL for a step that does not count
select
    rank,
    step,
    start_ns,
    end_ns,
    evidence,
    begin_ns,
    length_ns,
    role,
    kind,
    stands_for
from step_length
where is_asked($rank, rank)
order by rank, start_ns
