-- Threads and streams of a batch, numbered in order of their first event.
select
    pid,
    tid,
    row_number() over (order by min(event_id)) - 1 as pair
from batch
group by pid, tid
order by pair
