-- Every run of one of the user's own python functions, as the trace's stacks show it.
--
-- :reads code_frame
-- :column rank BIGINT       process rank
-- :column event_id BIGINT   the python frame
-- :column track_id BIGINT   the thread
-- :column depth BIGINT      number of events around it
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column source VARCHAR    file and line where the function begins
-- :column function VARCHAR  name of the function
select * exclude (is_user)
from code_frame
where is_user
