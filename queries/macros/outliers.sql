-- Distance of a value from the usual value.

-- Modified z-score: the distance from the median divided by the standard deviation of normal noise. The standard
-- deviation is 1.4826 times the median distance, or 1.2533 times the mean distance if the median distance is 0 because
-- most values are equal (Iglewicz and Hoaglin, "How to detect and handle outliers", 1993; 1 / 0.6745 and the root of
-- half of pi). NULL if all values are equal.
create or replace macro modified_z_score(distance, median_distance, mean_distance) as
distance / coalesce(1.4826 * nullif(median_distance, 0), 1.2533 * nullif(mean_distance, 0));

-- Modified z-score from which on a value is an outlier (same source).
create or replace macro most_usual_z_score() as
3.5;
