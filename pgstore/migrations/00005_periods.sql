-- +goose Up

-- Policies may have budgets of an hour and of a week. Nodes that know schema 4 alone read a policy without them, and would
-- pass them: they make no new payments.
UPDATE settings SET value = '5' WHERE name = 'minimum';

-- +goose Down
UPDATE settings SET value = '3' WHERE name = 'minimum';
