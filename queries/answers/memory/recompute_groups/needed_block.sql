-- Blocks needed to recompute each saved block of a light op.
--
-- Unsaved inputs that come from a light op are recomputed too. Other unsaved inputs must be kept.
--
-- :reads made_block, given_block
-- :column rank RANK
-- :column saved_id BIGINT    the saved block
-- :column block_id BIGINT    the block needed: the saved block itself, a block to recompute, an existing block, or a
--                            block to keep
-- :column is_computed BOOLEAN
--                            the block is recomputed
-- :column is_kept BOOLEAN    the block must be kept only for this purpose

-- one row per saved block and block needed for its recomputation
with recursive required_block as (
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
        required_block.rank,
        required_block.saved_id,
        made_block.block_id,
        made_block.op_id,
        made_block.is_light and not made_block.is_saved,
        not made_block.is_light and not made_block.is_saved
    from required_block
    inner join given_block on required_block.rank = given_block.rank and required_block.op_id = given_block.op_id
    inner join made_block on given_block.rank = made_block.rank and given_block.block_id = made_block.block_id
    where required_block.is_computed
)

select
    rank,
    saved_id,
    block_id,
    is_computed,
    is_kept
from required_block
