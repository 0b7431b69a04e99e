-- Every call of one of the user's own python functions, from the trace's stacks.
--
-- :reads code_frame
-- :column rank RANK
-- :column event_id BIGINT   the python frame
-- :column track_id BIGINT   the thread
-- :column depth BIGINT      number of events around the frame
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column source VARCHAR    file and first line of the function
-- :column function VARCHAR  name of the function
select * exclude (is_user)
from code_frame
where is_user
