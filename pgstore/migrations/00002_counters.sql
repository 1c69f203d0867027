-- +goose Up

-- A sheet has the counters that a lock guards and that were changed last, in a row of internal/codec, under the name of
-- the lock. The others have rows of their own in other_counters. No counter stands in both.
CREATE TABLE sheets (
    name bytea PRIMARY KEY,
    row  bytea NOT NULL
) WITH (fillfactor = 50);
ALTER TABLE counters RENAME TO other_counters;

-- Nodes that know schema 1 alone would count in the table that they do not find.
INSERT INTO settings VALUES ('minimum', '2') ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- +goose Down
DELETE FROM settings WHERE name = 'minimum';
ALTER TABLE other_counters RENAME TO counters;
DROP TABLE sheets;
