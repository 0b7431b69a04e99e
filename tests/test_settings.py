"""Settings of the engine without which its results are wrong."""

import duckdb

from hotline_analysis.database import SETTINGS


def test_a_sum_over_a_join_with_an_empty_table_can_be_compared() -> None:
    """The sum is 4,950, more than all ten numbers of `bound`."""
    with duckdb.connect(config={**SETTINGS, "threads": 1}) as connection:
        connection.execute("create table span as select 0::bigint as rank, i as dur_ns from range(100) as r(i)")
        connection.execute("create table compiled (rank bigint, dur_ns bigint)")
        connection.execute("create table bound as select i as dur_ns from range(10) as r(i)")
        total = "select sum(span.dur_ns) from span left join compiled on span.rank = compiled.rank where span.rank = 0"
        assert connection.execute(total).fetchall() == [(4950,)]
        found = connection.execute(f"select count(*) from bound where dur_ns < ({total})").fetchall()
        assert found == [(10,)]
