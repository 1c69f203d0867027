-- +goose Up

-- Policies may have totals of tasks, and keys a parent whose budgets they share. Nodes that know schema 5 alone read both
-- without them, and would pass the limits: they make no new payments.
UPDATE settings SET value = '6' WHERE name = 'minimum';

-- +goose Down
UPDATE settings SET value = '5' WHERE name = 'minimum';
