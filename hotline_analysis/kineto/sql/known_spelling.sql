-- Spellings of event categories in two lists: whole words, and endings of words (`*_runtime`).
create or replace temp table known_spelling as
select
    map(
        list(spelling order by spelling) filter (where not starts_with(spelling, '*')),
        list(category order by spelling) filter (where not starts_with(spelling, '*'))
    ) as categories,
    list({'ending': spelling[2:], 'category': category} order by spelling) filter (where starts_with(spelling, '*'))
        as endings
from given
