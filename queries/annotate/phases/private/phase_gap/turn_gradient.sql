-- The number of gradients accumulated in each turn.
--
-- :reads phase_timeline, cpu_span, name_class
-- :column step_start_ns BIGINT  start of the step
-- :column turn HUGEINT          the turn, as in `phase_timeline`
-- :column gradients BIGINT      gradients accumulated
select
    phase_timeline.step_start_ns,
    phase_timeline.turn,
    count(*) as gradients
from cpu_span
inner join name_class on cpu_span.class_id = name_class.class_id
asof inner join phase_timeline on cpu_span.start_ns >= phase_timeline.start_ns
where is_gradient_accumulation(name_class.name)
group by phase_timeline.step_start_ns, phase_timeline.turn
