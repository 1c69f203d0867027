-- +goose Up

-- The sheet of a key has the sums of its newest day, too: a row of internal/codec, and what was drawn from wallets. Sums of
-- other days, and those that have no room there, stand in spend_days. No day of a key stands in both. What is drawn
-- here is not yet in wallet_days, which has a row all the same, so that the key is found by the wallet.
ALTER TABLE sheets ADD COLUMN key_id text COLLATE "C";
ALTER TABLE sheets ADD COLUMN day    integer;
ALTER TABLE sheets ADD COLUMN spent  bytea;
ALTER TABLE sheets ADD COLUMN drawn  bytea;
CREATE INDEX sheets_key ON sheets (key_id) WHERE key_id IS NOT NULL;

-- Nodes that know schema 2 alone would write the day into spend_days. They do not find the counters any more.
ALTER TABLE sheets RENAME COLUMN row TO counters;
UPDATE settings SET value = '3' WHERE name = 'minimum';

CREATE VIEW days AS
    SELECT key_id, day, row FROM spend_days
    UNION ALL SELECT key_id, day, spent FROM sheets WHERE key_id IS NOT NULL;

-- +goose Down
DROP VIEW days;
UPDATE settings SET value = '2' WHERE name = 'minimum';
ALTER TABLE sheets RENAME COLUMN counters TO row;
INSERT INTO spend_days SELECT key_id, day, spent FROM sheets WHERE key_id IS NOT NULL;
ALTER TABLE sheets DROP COLUMN key_id, DROP COLUMN day, DROP COLUMN spent, DROP COLUMN drawn;
