-- +goose Up

-- The sheet of a key has the sums of its newest day, too: a row of internal/codec, and what was drawn from wallets. Sums of
-- other days, and those that have no room there, stand in spend_days. No day of a key stands in both. What is drawn
-- here is not yet in wallet_days, which has a row all the same, so that the key is found by the wallet.
ALTER TABLE sheets ADD COLUMN key_id text COLLATE "C";
ALTER TABLE sheets ADD COLUMN day    integer;
ALTER TABLE sheets ADD COLUMN spent  bytea;
ALTER TABLE sheets ADD COLUMN drawn  bytea;
CREATE INDEX sheets_key ON sheets (key_id) WHERE key_id IS NOT NULL;
CREATE VIEW days AS
    SELECT key_id, day, row FROM spend_days
    UNION ALL SELECT key_id, day, spent FROM sheets WHERE key_id IS NOT NULL;

-- What is searched for within a key has the key in its hash. So no other index answers the search, also while the planner
-- knows nothing of a young table: it would read all payments of the key.
UPDATE payments SET awaited = sha256(convert_to(key_id, 'UTF8') || awaited), living = sha256(convert_to(key_id, 'UTF8') || living),
    attempt_of = sha256(convert_to(key_id, 'UTF8') || attempt_of), holds_host = sha256(convert_to(key_id, 'UTF8') || holds_host)
    WHERE num_nonnulls(awaited, living, attempt_of, holds_host) > 0;
UPDATE spend SET host_hash = sha256(convert_to(key_id, 'UTF8') || host_hash) WHERE host_hash IS NOT NULL;
DROP INDEX payments_awaited, payments_living, payments_attempt, payments_host, spend_host;
CREATE INDEX payments_awaited ON payments (awaited) WHERE awaited IS NOT NULL;
CREATE INDEX payments_living ON payments (living) WHERE living IS NOT NULL;
CREATE INDEX payments_attempt ON payments (attempt_of, attempt) WHERE attempt_of IS NOT NULL;
CREATE INDEX payments_host ON payments (holds_host) WHERE holds_host IS NOT NULL;
CREATE INDEX spend_host ON spend (host_hash, id) WHERE host_hash IS NOT NULL;

-- Nodes that know schema 2 alone would write days and hashes of their own. They do not find the counters any more.
ALTER TABLE sheets RENAME COLUMN row TO counters;
UPDATE settings SET value = '3' WHERE name = 'minimum';

-- There is no way back: no hash tells of what it was made.
