-- A row is a time in which autograd runs on a thread of its own: the main thread hands over and waits until the end.
--
-- :takes rank, end_ns
-- :reads path_thread, path_window, phase_span
-- :column track_id BIGINT  autograd's thread
-- :column main_id BIGINT   the main thread
-- :column start_ns BIGINT  when the main thread hands over
-- :column end_ns BIGINT    when it goes on
select
    phase_span.track_id,
    main.track_id as main_id,
    phase_span.start_ns,
    phase_span.end_ns
from phase_span
inner join (select track_id from path_thread where is_main) as main on phase_span.track_id != main.track_id
cross join path_window
where
    phase_span.rank = $rank
    and not phase_span.is_main
    and phase_span.phase = 'backward'
    and phase_span.end_ns > path_window.start_ns
    and phase_span.start_ns < $end_ns
