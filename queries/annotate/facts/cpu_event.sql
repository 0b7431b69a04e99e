-- Every event of a CPU thread, with its place in the tree of calls, its step, phase and module.
--
-- Times are as the events nest. The few events whose times in the file cross other events also have these times.
--
-- :reads event, labelled_span, name_info
-- :only_with labelled_span
-- :column event_id BIGINT        the event
-- :column track_id BIGINT        thread
-- :column category VARCHAR       kind of event; NULL if absent
-- :column name VARCHAR           name of the event
-- :column short_name VARCHAR     name without return type, namespaces, template arguments and file paths
-- :column is_blocking BOOLEAN    a runtime or driver call that returns when the GPU is done
-- :column correlation BIGINT     correlation id of a runtime or driver call; NULL without one
-- :column start_ns BIGINT        start
-- :column end_ns BIGINT          end
-- :column dur_ns BIGINT          duration
-- :column given_start_ns BIGINT  start in the file; NULL if the same
-- :column given_end_ns BIGINT    end in the file; NULL if the same
-- :column depth BIGINT           number of enclosing events on the thread
-- :column parent_id BIGINT       the innermost enclosing event; NULL for a root
-- :column self_ns BIGINT         time inside the event and outside its children
-- :column op_id BIGINT           the innermost enclosing CPU op, or the event itself if it is an op; NULL if absent
-- :column overhangs BOOLEAN      the event ends after its parent, and was cut
-- :column step STEP              NULL outside every step
-- :column phase PHASE            of the step; NULL outside every step
-- :column module_id BIGINT       the module (see `model_op`); NULL if unknown
-- :column module_path VARCHAR    path of the module; NULL if unknown
-- :column pass VARCHAR           forward, backward or recompute; NULL if the module is unknown
-- :column bucket VARCHAR         bucket of the time: `module`, or a named bucket if the time belongs to no module
-- :column evidence VARCHAR       nn_module, alignment, sequence_number, flow or autograd_order; NULL without a module
select
    event.event_id,
    event.track_id,
    event.category,
    event.name,
    coalesce(name_info.short_name, event.name) as short_name,
    name_info.is_blocking,
    event.correlation,
    labelled_span.start_ns,
    labelled_span.end_ns,
    labelled_span.end_ns - labelled_span.start_ns as dur_ns,
    nullif(event.start_ns, labelled_span.start_ns) as given_start_ns,
    nullif(event.end_ns, labelled_span.end_ns) as given_end_ns,
    labelled_span.depth,
    labelled_span.parent_id,
    labelled_span.self_ns,
    labelled_span.op_id,
    labelled_span.overhangs,
    labelled_span.step,
    labelled_span.phase,
    labelled_span.module_id,
    labelled_span.module_path,
    labelled_span.pass,
    labelled_span.bucket,
    labelled_span.evidence
from event
inner join labelled_span on event.event_id = labelled_span.event_id
left join name_info
    on (event.category, event.name) = (name_info.category, name_info.name)
