-- How far a value is from what is usual.

-- The modified z-score by the distance from the median, and the median of these distances; NULL where that is 0. 1.4826
-- makes it the standard deviation of normal noise (Iglewicz and Hoaglin, "How to detect and handle outliers", 1993).
create or replace macro modified_z_score(distance, median_distance) as
distance / (1.4826 * nullif(median_distance, 0));

-- From here on they call a value an outlier.
create or replace macro most_usual_z_score() as
3.5;
