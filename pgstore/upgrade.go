package pgstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/purserpay/purser/pay"
)

// Migrations add, and nodes of the version before go on beside them. One that they do not survive sets
// settingMinimum in the same transaction: nodes that know less than that schema make no new payments from
// then on, and say why. They still write outcomes.

// settingMinimum names the lowest schema that a node must know to make new payments: a decimal number.
const settingMinimum = "minimum"

// tooOld reports whether a value of settingMinimum is above the schema that this node knows.
func (d *DB) tooOld(value []byte) (bool, error) {
	if value == nil {
		return false, nil
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return false, fmt.Errorf("setting %s: %w", settingMinimum, err)
	}
	return n > d.schema, nil
}

// sawMinimum takes note of the minimum, for Health.
func (d *DB) sawMinimum(ctx context.Context, value []byte) error {
	old, err := d.tooOld(value)
	if err != nil {
		return err
	}
	if was := d.old.Swap(old); old && !was {
		d.log.ErrorContext(ctx, "store: no new payments, because the database wants a newer purser", "schema", d.schema, "minimum", string(value))
	}
	return nil
}

// admit returns the call as this node may decide it: one that is too old declines new payments. It asks
// with each call, so that a migration counts at once.
func (d *DB) admit(ctx context.Context, s *state, want *pay.Begin) (*pay.Begin, error) {
	if _, err := s.ask(askSetting, settingMinimum, ""); err != nil {
		return nil, err
	}
	if err := d.sawMinimum(ctx, s.settings[settingMinimum]); err != nil {
		return nil, err
	}
	if !d.old.Load() || want.Declined != nil {
		return want, nil
	}
	own := *want
	own.Declined = &downError{DownOld}
	return &own, nil
}
