-- Numbers in the text of a finding.

-- A number with three digits: `3.50`, `39.6`, `250`.
create or replace macro three_digits(number) as
case
    when number < 9.995 then format('{:.2f}', number::double)
    when number < 99.95 then format('{:.1f}', number::double)
    else format('{:.0f}', number::double)
end;

-- A duration with three digits and a unit, as in the sentences of reports: `39.6 µs`, `3.50 ms`.
create or replace macro duration_text(ns) as
case
    when ns < 999.5 then format('{:.0f} ns', ns::double)
    when ns < 999500 then three_digits(ns / 1e3) || ' µs'
    when ns < 999500000 then three_digits(ns / 1e6) || ' ms'
    else three_digits(ns / 1e9) || ' s'
end;
