-- What a question is about: filters by the parameters that most answers take. One that is NULL asks for everything.

-- Whether a value is the one that is asked for, as in `is_asked($rank, rank)`.
create or replace macro is_asked(asked, value) as
asked is null or value = asked;

-- Whether a number is one from `first` to `last`; where one of them is NULL, there is no such end.
create or replace macro is_in_range(first, last, number) as
(first is null or number >= first) and (last is null or number <= last);
