-- Filters by the parameters common to most answers. NULL selects all rows.

-- Whether a value passes a filter, as in `is_asked($rank, rank)`.
create or replace macro is_asked(asked, value) as
asked is null or value = asked;

-- Whether a number is between `first` and `last`, inclusive. A NULL end is unbounded.
create or replace macro is_in_range(first, last, number) as
(first is null or number >= first) and (last is null or number <= last);
