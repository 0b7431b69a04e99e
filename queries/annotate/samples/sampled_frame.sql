-- Functions that ran in the warm-up steps, by the marks of the step around them: samples that a capture took.
--
-- `analyze` samples the python stack of the training thread before the recording begins, and stores the counts in the
-- trace (`hotline_samples`). Marks are calls of the data loader, the model, the loss, backward, `Optimizer.step` and
-- `zero_grad`, as the stack shows them. A place is either inside a mark, or between two marks. `after_mark` and
-- `before_mark` are the marks before and after the place in both cases. Steps repeat: the last mark of a step comes
-- before the first mark of the next step, also at both ends of the sampling. A mark that is much shorter than the
-- interval of the samples is missed in some steps; its neighbours then surround the place.
--
-- User code is code outside of the standard library, installed packages, torch and this package. `sample_count`
-- counts each sample once among the user's rows: for the innermost function of the user on the stack. Rows with
-- `is_user = false` show the innermost function of those samples if it is not user code (`fsync` called by
-- `save_grid`), and samples without any user code. The training loop (`is_loop`) has a row for each line, other
-- functions have one row for each place.
--
-- The samples show the warm-up steps, never the recorded steps: for a recorded step they are likely, not certain.
--
-- :reads rank_info
-- :column after_mark VARCHAR       previous mark, named as the phase that the mark belongs to; NULL if
--                                  no mark was seen
-- :column before_mark VARCHAR      next mark, with the same words; NULL if no mark was seen
-- :column inside_mark VARCHAR      mark whose call is on the stack; NULL between marks
-- :column function VARCHAR         qualified name of the function
-- :column file VARCHAR             its file
-- :column line BIGINT              most frequent line of the function in these samples, such as the line of a call
-- :column first_line BIGINT        line where the function begins
-- :column module VARCHAR           python module of the function; NULL when unknown
-- :column sample_count BIGINT      samples in which the function is the innermost one of its kind (see above)
-- :column inclusive_count BIGINT   samples in which the function is on the stack, also around other user functions
-- :column gap_sample_count BIGINT  all samples with the same marks after, before and inside
-- :column is_user BOOLEAN          it is user code
-- :column is_loop BOOLEAN          the function also calls marks: it is the training loop, or around it
-- :column is_caller BOOLEAN        it calls the mark that the place is inside of: `line` is the line of the call
with stored as (
    -- One row for each entry of the list that the capture stored.
    select
        unnest(
            json_transform(
                json_extract(metadata, '$.hotline_samples.frames'),
                '[{
                    "after": "VARCHAR", "before": "VARCHAR", "inside": "VARCHAR", "function": "VARCHAR",
                    "file": "VARCHAR", "line": "BIGINT", "first_line": "BIGINT", "module": "VARCHAR",
                    "count": "BIGINT", "inclusive": "BIGINT", "gap": "BIGINT", "is_user": "BOOLEAN",
                    "is_loop": "BOOLEAN", "is_caller": "BOOLEAN"
                }]'
            )
        ) as frame
    from rank_info
)

select
    frame.after as after_mark,
    frame.before as before_mark,
    frame.inside as inside_mark,
    frame.function,
    frame.file,
    frame.line,
    frame.first_line,
    frame.module,
    coalesce(frame.count, 0) as sample_count,
    coalesce(frame.inclusive, 0) as inclusive_count,
    coalesce(frame.gap, 0) as gap_sample_count,
    coalesce(frame.is_user, false) as is_user,
    coalesce(frame.is_loop, false) as is_loop,
    coalesce(frame.is_caller, false) as is_caller
from stored
where frame.function is not null
order by all
