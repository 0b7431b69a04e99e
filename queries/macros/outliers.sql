-- How far a value is from what is usual.

-- The modified z-score by the distance from the median, and the median and mean of these distances: the distance over
-- what is the standard deviation of normal noise, 1.4826 times the median, or, where that is 0 as most values are
-- equal, 1.2533 times the mean (Iglewicz and Hoaglin, "How to detect and handle outliers", 1993; 1 / 0.6745 and the
-- root of half of pi). NULL where all are equal.
create or replace macro modified_z_score(distance, median_distance, mean_distance) as
distance / coalesce(1.4826 * nullif(median_distance, 0), 1.2533 * nullif(mean_distance, 0));

-- From here on they call a value an outlier.
create or replace macro most_usual_z_score() as
3.5;
