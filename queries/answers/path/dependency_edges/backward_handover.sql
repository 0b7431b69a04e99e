-- One row per time in which autograd runs on its own thread while the main thread waits.
--
-- :takes rank, end_ns
-- :reads path_thread, path_window, phase_span
-- :column track_id BIGINT  thread of autograd
-- :column main_id BIGINT   main thread
-- :column start_ns BIGINT  time of the handover by the main thread
-- :column end_ns BIGINT    time at which the main thread continues
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
