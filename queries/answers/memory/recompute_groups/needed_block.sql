-- What it takes to compute each saved block of a light op again: blocks from which its op is given what it needs.
--
-- A block that is not saved and comes from a light op itself is computed again, too; any other one that is not saved
-- has to be kept.
--
-- :reads made_block, given_block
-- :column rank BIGINT        process rank
-- :column saved_id BIGINT    the saved block
-- :column block_id BIGINT    the block that it takes: itself, one to compute, one that is there, or one to keep
-- :column is_computed BOOLEAN  it is computed again
-- :column is_kept BOOLEAN    it has to be kept for that, and else would not be
with recursive needed as (
    select
        rank,
        block_id as saved_id,
        block_id,
        op_id,
        true as is_computed,
        false as is_kept
    from made_block
    where is_saved and is_light
    union
    select
        needed.rank,
        needed.saved_id,
        made_block.block_id,
        made_block.op_id,
        made_block.is_light and not made_block.is_saved,
        not made_block.is_light and not made_block.is_saved
    from needed
    inner join given_block on needed.rank = given_block.rank and needed.op_id = given_block.op_id
    inner join made_block on given_block.rank = made_block.rank and given_block.block_id = made_block.block_id
    where needed.is_computed
)

select
    rank,
    saved_id,
    block_id,
    is_computed,
    is_kept
from needed
