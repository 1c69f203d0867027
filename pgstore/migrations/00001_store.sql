-- +goose Up

-- Names and values of the store itself: its id, wrapped keys, world, pause and the like. JSON, but
-- for the wrapped keys.
CREATE TABLE settings (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

-- A row for each thing that only one transaction may decide about at a time: a key, a counter that
-- several keys share. A transaction locks the rows of all that it names, in the order of their names.
CREATE TABLE locks (
    name bytea PRIMARY KEY
);
INSERT INTO locks SELECT convert_to('transaction/' || lpad(to_hex(i), 3, '0'), 'UTF8') FROM generate_series(0, 4095) i;

-- The last number that was given to an audit entry or a notice.
CREATE TABLE numbers (
    name text PRIMARY KEY,
    last bigint NOT NULL
);
INSERT INTO numbers VALUES ('audit', 0), ('notices', 0);

-- The batches that were committed. A node that lost the answer of a commit looks here, and leaves a void row
-- so that the batch cannot be committed later.
CREATE TABLE operations (
    id   uuid PRIMARY KEY,
    at   timestamptz NOT NULL DEFAULT now(),
    void boolean NOT NULL DEFAULT false
);
CREATE INDEX operations_at ON operations (at);

CREATE TABLE organizations (
    id  text COLLATE "C" PRIMARY KEY,
    row json NOT NULL
);

CREATE TABLE keys (
    id              text COLLATE "C" PRIMARY KEY,
    organization_id text COLLATE "C" NOT NULL,
    revision        bigint NOT NULL,
    secret_hash     bytea NOT NULL UNIQUE,
    secret          bytea, -- sealed
    row             json NOT NULL
);
CREATE INDEX keys_organization ON keys (organization_id, id) WHERE organization_id <> '';

CREATE TABLE replaced_secrets (
    secret_hash bytea PRIMARY KEY,
    key_id      text COLLATE "C" NOT NULL
);

CREATE TABLE accounts (
    id       text COLLATE "C" PRIMARY KEY,
    identity bytea NOT NULL UNIQUE, -- hash of issuer and subject
    row      json NOT NULL          -- what the provider says of the person is sealed
);

CREATE TABLE sessions (
    id      text COLLATE "C" PRIMARY KEY,
    expires bigint NOT NULL, -- nanoseconds since 1970, like all times in numbers
    data    bytea NOT NULL   -- sealed
);
CREATE INDEX sessions_expires ON sessions (expires, id);

CREATE TABLE wallets (
    id      text COLLATE "C" PRIMARY KEY,
    key_id  text COLLATE "C" NOT NULL,
    address bytea UNIQUE,
    live    boolean NOT NULL,
    secret  bytea, -- sealed
    row     json NOT NULL
);
CREATE INDEX wallets_live ON wallets (key_id, id) WHERE live;

CREATE TABLE loans (
    key_id    text COLLATE "C" NOT NULL,
    wallet_id text COLLATE "C" NOT NULL,
    at        bigint NOT NULL,
    PRIMARY KEY (key_id, wallet_id)
);
CREATE INDEX loans_wallet ON loans (wallet_id, key_id);

-- row and payload are those of internal/codec; the other columns repeat what is searched for. A column
-- that has an index of its own is null for payments that the search must not find.
CREATE TABLE payments (
    id           text COLLATE "C" PRIMARY KEY,
    key_id       text COLLATE "C" NOT NULL,
    labels       smallint NOT NULL, -- bits
    host         text NOT NULL,
    task         text NOT NULL,
    pay_to       bytea NOT NULL,
    currency     text NOT NULL,
    moved        numeric(78) NOT NULL,
    created      bigint NOT NULL,
    valid_before bigint NOT NULL, -- seconds
    awaited      bytea,           -- identity
    living       bytea,           -- hash of the idempotency key
    attempt_of   bytea,           -- hash of the idempotency key
    attempt      bigint,
    holds_host   bytea,           -- hash of the host
    transaction  bytea,
    payer        bytea NOT NULL,
    nonce        bytea NOT NULL,
    leased       bigint,
    due          bigint,
    row          bytea NOT NULL,
    payload      bytea
) WITH (fillfactor = 80);
CREATE INDEX payments_key ON payments (key_id, id);
CREATE INDEX payments_labels ON payments (labels, id);
CREATE INDEX payments_awaited ON payments (key_id, awaited) WHERE awaited IS NOT NULL;
CREATE INDEX payments_living ON payments (key_id, living) WHERE living IS NOT NULL;
CREATE INDEX payments_attempt ON payments (key_id, attempt_of, attempt) WHERE attempt_of IS NOT NULL;
CREATE INDEX payments_host ON payments (key_id, holds_host) WHERE holds_host IS NOT NULL;
CREATE INDEX payments_transaction ON payments (transaction) WHERE transaction IS NOT NULL;
CREATE INDEX payments_nonce ON payments (nonce);
CREATE INDEX payments_leased ON payments (leased) WHERE leased IS NOT NULL;
CREATE INDEX payments_due ON payments (due) WHERE due IS NOT NULL;

-- The last attempt of removed payments under an idempotency key: no nonce is derived twice.
CREATE TABLE removed_attempts (
    key_id     text COLLATE "C" NOT NULL,
    attempt_of bytea NOT NULL,
    attempt    bigint NOT NULL,
    PRIMARY KEY (key_id, attempt_of)
);

-- Partitions are months, by the time in the ids.
CREATE TABLE spend (
    id         text COLLATE "C" NOT NULL,
    key_id     text COLLATE "C" NOT NULL,
    payment_id text COLLATE "C" NOT NULL,
    host_hash  bytea, -- null: no host
    host       text NOT NULL,
    task       text NOT NULL,
    currency   text NOT NULL,
    amount     numeric(78) NOT NULL,
    created    bigint NOT NULL,
    corrects   text COLLATE "C" NOT NULL,
    row        bytea NOT NULL, -- of internal/codec
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE TABLE spend_other PARTITION OF spend DEFAULT;
CREATE INDEX spend_key ON spend (key_id, id);
CREATE INDEX spend_host ON spend (key_id, host_hash, id) WHERE host_hash IS NOT NULL;
CREATE INDEX spend_task ON spend (key_id, task, id) WHERE task <> '';
CREATE INDEX spend_payment ON spend (payment_id);

-- What a key spent on a day, in a row of internal/codec, and what it drew from a wallet.
CREATE TABLE spend_days (
    key_id text COLLATE "C" NOT NULL,
    day    integer NOT NULL, -- days since 1970
    row    bytea NOT NULL,
    PRIMARY KEY (key_id, day)
) WITH (fillfactor = 50);
CREATE TABLE wallet_days (
    wallet_id       text COLLATE "C" NOT NULL,
    day             integer NOT NULL,
    key_id          text COLLATE "C" NOT NULL, -- that drew; '': sums that were moved here
    spent_count     bigint NOT NULL,
    spent           numeric(78) NOT NULL,
    spent_back      numeric(78) NOT NULL, -- taken back by corrections
    withdrawn_count bigint NOT NULL,
    withdrawn       numeric(78) NOT NULL,
    withdrawn_back  numeric(78) NOT NULL,
    PRIMARY KEY (wallet_id, day, key_id)
) WITH (fillfactor = 50);

-- Names may have any bytes, because callers choose parts of them.
CREATE TABLE counters (
    name   bytea PRIMARY KEY,
    amount numeric(78) NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE declined (
    key_id text COLLATE "C" NOT NULL,
    day    integer NOT NULL,
    row    json NOT NULL,
    PRIMARY KEY (key_id, day)
);

CREATE TABLE audit (
    number          bigint PRIMARY KEY,
    key_id          text COLLATE "C" NOT NULL,
    organization_id text COLLATE "C" NOT NULL,
    row             json NOT NULL
);
CREATE INDEX audit_key ON audit (key_id, number) WHERE key_id <> '';
CREATE INDEX audit_organization ON audit (organization_id, number) WHERE organization_id <> '';

CREATE TABLE notices (
    number bigint PRIMARY KEY,
    row    json NOT NULL
);
CREATE TABLE notice_marks (
    name  bytea PRIMARY KEY,
    count bigint NOT NULL,
    until bigint NOT NULL
);
CREATE INDEX notice_marks_until ON notice_marks (until);
CREATE TABLE deliveries (
    destination text COLLATE "C" PRIMARY KEY,
    row         json NOT NULL,
    claimed     bigint NOT NULL DEFAULT 0 -- the end of a sender's claim
);

CREATE TABLE approvals (
    id       text COLLATE "C" PRIMARY KEY,
    key_id   text COLLATE "C" NOT NULL,
    expires  bigint NOT NULL,
    answered boolean NOT NULL,
    purchase bytea, -- null: it was used
    row      json NOT NULL
);
CREATE INDEX approvals_key ON approvals (key_id, id);
CREATE INDEX approvals_pending ON approvals (expires, id) WHERE NOT answered;
CREATE INDEX approvals_pending_key ON approvals (key_id, expires, id) WHERE NOT answered;
CREATE INDEX approvals_purchase ON approvals (key_id, purchase, id) WHERE purchase IS NOT NULL;

-- +goose Down
DROP TABLE approvals, deliveries, notice_marks, notices, audit, declined, counters, wallet_days, spend_days, spend, removed_attempts, payments,
    loans, wallets, sessions, accounts, replaced_secrets, keys, organizations, operations, numbers, locks, settings;
