package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// walletDays compares what left wallets with the events that make it up. One day of a wallet takes
// some hundred bytes of memory.
type walletDays struct {
	*checker
	want map[string]pay.WalletDay // by the entry's key
}

func (w *walletDays) add(p *pay.Payment, e *pay.SpendEvent) {
	key := string(dayKey(p.WalletID, e.Created))
	day := w.want[key]
	day.Event(p, e)
	w.want[key] = day
}

// end looks at every row. Of days whose events were removed, rows cannot be compared.
func (w *walletDays) end(ctx context.Context) error {
	err := w.each(ctx, walletDaysBucket, func(k, row []byte) {
		want, made := w.want[string(k)]
		delete(w.want, string(k))
		wallet, number, _ := bytes.Cut(k, []byte{0})
		what := fmt.Sprintf("what left wallet %s on %s", wallet, dayName(k))
		was, err := codec.DecodeWalletDay(row)
		switch {
		case err != nil:
			w.fault("%s: %v", what, err)
		case len(number) == 8 && dayIn(number).Before(w.report.Removed):
		case !made:
			w.fault("%s has an entry %q, and no spend event is of that wallet and day", walletDaysBucket, k)
		case was.Spent != want.Spent || was.Withdrawn != want.Withdrawn:
			w.fault("%s is summed up as %s, and withdrawn %s; its events make %s, and withdrawn %s",
				what, sumText(was.Spent), sumText(was.Withdrawn), sumText(want.Spent), sumText(want.Withdrawn))
		}
	})
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(w.want)) {
		wallet, _, _ := bytes.Cut([]byte(key), []byte{0})
		w.fault("what left wallet %s on %s is not summed up", wallet, dayName([]byte(key)))
	}
	return nil
}
