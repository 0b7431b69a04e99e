-- Causes of idle time. `idle_part` has the cause of each part; all other tables and answers sum these parts, in full
-- detail (`gpu_gap`) or combined. `hotline_analysis/vocabulary.py` has the words, and the same combination in Python.

-- Cause of idle time while a thread has an activity (`host_activity.kind`): without any event, the thread runs python,
-- unless the recorder does not show its threads' time between events.
create or replace macro host_cause(activity) as
case when activity = 'nothing' then 'python' when activity = 'unrecorded' then 'unknown' else activity end;

-- Combined cause of a cause in full detail, or of a thread's activity: ops and launches are the CPU's time to launch.
create or replace macro use_cause(cause) as
case when cause in ('op', 'launch') then 'launching' else host_cause(cause) end;
